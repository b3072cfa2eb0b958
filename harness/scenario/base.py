"""Base class of scenarios: one engine and, unless a scenario overrides them, no accuracy pass and no scores."""

from collections.abc import Callable
from typing import Any

from backends.batches import BatchPlan
from harness.planning.schema import RunConfig


class EngineScenario:
    """A scenario of one engine."""

    config: RunConfig
    engine: Any
    plan: BatchPlan  # of scenarios whose epochs have batches

    @property
    def now(self) -> Callable[[], float] | None:
        """Simulated time of an engine that has one."""
        return getattr(self.engine, "now", None)

    def gate_configs(self) -> list[Any]:
        """Options of the engine with which the gate is passed: the cell's, and what the prepared engine adds.

        An engine that chooses among forms by the graph adds those that it chose, as the gate's graphs are others.
        """
        own: list[Any] = self.engine.gate_configs() if hasattr(self.engine, "gate_configs") else [self.config.backend]
        return own

    def draw(self, index: int) -> None:
        """Draw the batches of the next timed call; nothing by default."""

    def release(self) -> None:
        """Free the results of the last call, as far as this scenario holds them."""

    def accuracy(self, progress: Callable[[int, float], None]) -> dict[str, Any]:
        """Return no scores: only ``train`` has an accuracy pass."""
        return {}

    def facts(self) -> dict[str, Any]:
        """Facts of the engine."""
        facts: dict[str, Any] = self.engine.facts()
        return facts

    def metrics(self) -> dict[str, Any] | None:
        """Return None: the timed call makes no predictions."""
        return None

    def close(self) -> None:
        """Close the engine."""
        self.engine.close()
