"""A cell in this very process: for tests and debuggers, not for numbers."""

import traceback
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from harness.launcher.failure import CellFailed, status_of
from harness.measure import memory
from harness.session import Session

Json = dict[str, Any]


class InlineCell:
    """The worker of one cell without process, pipe, limits or deadline."""

    session: int | None = None  # of no other process: a waiting inline cell does nothing

    def __init__(self, cell: Json, progress: Callable[[Json], None]) -> None:
        self.environment: Json | None = None
        self._progress = progress
        self._session = self._guarded(lambda: Session(cell, self._hear))

    def _hear(self, message: Json) -> None:
        if message["event"] == "environment":
            self.environment = message["environment"]
        else:
            self._progress(message)

    def _guarded(self, call: Callable[[], Any]) -> Any:
        try:
            return call()
        except CellFailed:
            raise
        except Exception as error:
            raise CellFailed(*status_of(error), traceback.format_exc()[-4096:]) from error

    def start(self) -> None:
        """See ``harness.launcher.group.Worker``, as for all below."""
        self._guarded(self._session.start)

    def started(self) -> None:
        """It is."""

    def open(self) -> Json:
        """Load, prepare, verify and warm up."""
        return dict(self._guarded(self._session.open))

    def sample(self) -> Json:
        """Take one sample."""
        return dict(self._guarded(self._session.sample))

    def memory(self) -> Json:
        """Run the timed call once more and watch this process's memory."""
        resident = self._session.trim()["resident"]
        with memory.watched_from_inside() as peak:
            answer = dict(self._guarded(self._session.watched))
        answer["peak"] = max(peak.bytes, resident + answer.pop("growth"))
        return {"resident": resident, **answer}

    def accuracy(self) -> Json:
        """Train to the end."""
        return dict(self._guarded(self._session.accuracy))

    def finish(self, shared: Json) -> Json:
        """Return facts, the cache model's answer and limits."""
        return dict(self._guarded(lambda: self._session.finish(shared)))

    def resident(self) -> int:
        """Nothing of its own: this process is there anyway."""
        return 0

    def close(self) -> None:
        """Let the engine end, whatever state a failure left it in."""
        with suppress(Exception):
            self._session.close()
