"""The timed call of each scenario, one class each."""

from typing import Any, Protocol

from backends.batches import BatchPlan
from backends.contract import Clock, Unsupported
from backends.registry import load_object

SCENARIOS = {
    "train": "harness.scenario.train:Train",
    "infer": "harness.scenario.infer:Infer",
    "flatten": "harness.scenario.flatten:Flatten",
    "sample": "harness.scenario.sample:Sample",
    "spmm": "harness.scenario.spmm:Spmm",
    "partition": "harness.scenario.partition:Partition",
    "dispatch": "harness.scenario.dispatch:Dispatch",
}


class Scenario(Protocol):
    """A cell's engine with the call that is timed."""

    engine: Any
    batches: int
    plan: BatchPlan  # of scenarios whose epochs have batches

    @property
    def now(self) -> Any:
        """Simulated time of an engine that has one (``dummy``), else ``None``."""
        ...

    def prepare(self, clock: Clock, limit: int | None) -> None:
        """Build and prepare the engine; ``limit`` keeps the first batches only."""
        ...

    def gate_configs(self) -> list[Any]:
        """Options of the engine with which the parity gate is passed."""
        ...

    def draw(self, index: int) -> None:
        """Draw the batches of the timed call ``index``, which all engines get alike, before it is timed."""
        ...

    def run(self, index: int, clock: Clock) -> float | None:
        """Run the timed call once; returns the loss where there is one."""
        ...

    def release(self) -> None:
        """Free the results of the last timed call, before the memory pass makes one more."""
        ...

    def accuracy(self, progress: Any) -> dict[str, Any]:
        """Carry out the accuracy pass."""
        ...

    def facts(self) -> dict[str, Any]:
        """Facts of the engine, and what the harness computes from its last answer."""
        ...

    def metrics(self) -> dict[str, Any] | None:
        """Score the answer of the last timed call; None where it predicts nothing."""
        ...

    def close(self) -> None:
        """Close the engine."""
        ...


def scenario_class(name: str) -> Any:
    """Return a scenario's class; raises Unsupported with the allowed names."""
    if name not in SCENARIOS:
        raise Unsupported(f"scenario {name!r} is not built: allowed are {', '.join(SCENARIOS)}")
    return load_object(SCENARIOS[name])
