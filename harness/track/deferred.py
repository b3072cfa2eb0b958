"""Records on their way to the tracker: held back while any cell is at work, because a tracker takes processor time."""

from types import TracebackType
from typing import Any

from harness.planning.schema import TrackerConfig
from harness.track import start


class Sink:
    """Collects the records of a run's events and hands them over between groups and at the end."""

    def __init__(self, config: TrackerConfig) -> None:
        self.tracker = start(config)
        self.held: list[dict[str, Any]] = []
        self.working: set[int] = set()

    def __call__(self, event: dict[str, Any]) -> None:
        """Take one event; a start while nobody works is the moment between two groups."""
        if event["event"] == "start":
            if not self.working:
                self.flush()
            self.working.add(event["cell"])
        elif event["event"] == "done":
            self.working.discard(event["cell"])
            self.held.append(event["record"])

    def flush(self) -> None:
        """Hand over what is held."""
        held, self.held = self.held, []
        for record in held:
            self.tracker.record(record)

    def __enter__(self) -> "Sink":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.flush()
