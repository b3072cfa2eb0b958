"""Base of scenarios around one engine that neither train nor score anything."""

from collections.abc import Callable
from typing import Any


class EngineScenario:
    """A scenario around one engine."""

    engine: Any

    @property
    def now(self) -> Callable[[], float] | None:
        """Simulated time of an engine that has one."""
        return getattr(self.engine, "now", None)

    def accuracy(self, progress: Callable[[int, float], None]) -> dict[str, Any]:
        """Nothing to train."""
        return {}

    def metrics(self) -> dict[str, Any] | None:
        """Nothing to score."""
        return None

    def close(self) -> None:
        """Let the engine end."""
        self.engine.close()
