"""Base class of scenarios: one engine and, unless a scenario overrides them, no accuracy pass and no scores."""

from collections.abc import Callable
from typing import Any


class EngineScenario:
    """A scenario of one engine."""

    engine: Any

    @property
    def now(self) -> Callable[[], float] | None:
        """Simulated time of an engine that has one."""
        return getattr(self.engine, "now", None)

    def draw(self, index: int) -> None:
        """Draw the batches of the next timed call; nothing by default."""

    def accuracy(self, progress: Callable[[int, float], None]) -> dict[str, Any]:
        """Return no scores: only ``train`` has an accuracy pass."""
        return {}

    def metrics(self) -> dict[str, Any] | None:
        """Return None: the timed call makes no predictions."""
        return None

    def close(self) -> None:
        """Close the engine."""
        self.engine.close()
