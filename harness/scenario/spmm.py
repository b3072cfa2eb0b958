"""Scenario ``spmm``: one aggregation of a model, forward and backward, is timed."""

from collections.abc import Callable
from typing import Any

from backends.contract import Clock, Multiplier
from backends.registry import runtime
from datasets.graph import Graph
from harness.scenario.setup import product_spec_of, training_of
from harness.schema import RunConfig


class Spmm:
    """A multiplier on the whole graph; the model says what is aggregated, ``model.hidden`` how wide."""

    engine: Multiplier

    def __init__(self, config: RunConfig, graph: Graph) -> None:
        self.config, self.graph, self.batches = config, graph, 1
        self.spec = product_spec_of(config)

    @property
    def now(self) -> Callable[[], float] | None:
        """Simulated time of an engine that has one."""
        return getattr(self.engine, "now", None)

    def prepare(self, clock: Clock, limit: int | None) -> None:
        """Build and prepare the multiplier; a limit does not apply."""
        self.engine = runtime(self.config.backend, "spmm")
        self.engine.prepare(self.graph, self.spec, training_of(self.config), clock)

    def run(self, index: int, clock: Clock) -> None:
        """Aggregate once, forward and backward."""
        self.engine.multiply(clock)

    def accuracy(self, progress: Callable[[int, float], None]) -> dict[str, Any]:
        """Nothing to train."""
        return {}

    def metrics(self) -> dict[str, Any] | None:
        """Nothing to score."""
        return None

    def close(self) -> None:
        """Let the multiplier end."""
        self.engine.close()
