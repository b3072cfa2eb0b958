"""Records for the tracker, deferred while any cell is at work, because a tracker takes processor time."""

from types import TracebackType
from typing import Any

from harness.planning.schema import TrackerConfig
from harness.track import start


class DeferredTracker:
    """Collects the records of a run's events and hands them to the tracker between groups and at the end."""

    def __init__(self, config: TrackerConfig) -> None:
        self.tracker = start(config)
        self.records: list[dict[str, Any]] = []
        self.working: set[int] = set()

    def __call__(self, event: dict[str, Any]) -> None:
        """Take one event; a cell that starts while none works begins the next group."""
        if event["event"] == "start":
            if not self.working:
                self.flush()
            self.working.add(event["cell"])
        elif event["event"] == "done":
            self.working.discard(event["cell"])
            self.records.append(event["record"])

    def flush(self) -> None:
        """Hand over the deferred records."""
        records, self.records = self.records, []
        for record in records:
            self.tracker.record(record)

    def __enter__(self) -> "DeferredTracker":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.flush()
