"""The worker of a cell that runs in this process: for tests and debuggers, not for published numbers."""

import math
import traceback
from collections.abc import Callable
from contextlib import suppress
from typing import Any, cast

from harness.launcher.failure import CellFailed, status_of
from harness.launcher.messages import Event, MemoryPass, Modules, Opened, PlannedCell, TimedSample
from harness.measure import memory
from harness.session import Session


class InlineCell:
    """The worker of one cell without process, pipe, limits or deadline."""

    tree: int | None = None  # no process of its own that could disturb the others' samples

    def __init__(self, cell: PlannedCell, progress: Callable[[Event], None]) -> None:
        self.environment: dict[str, Any] | None = None
        self.left, self.ends = 0.0, math.inf  # no deadline
        self.modules: Modules = {}
        self._progress = progress
        self._session: Session = self._guarded(lambda: Session(cell, self._hear))

    def _hear(self, message: Event) -> None:
        if message["event"] == "environment":
            self.environment = message["environment"]
        elif message["event"] == "modules":
            self.modules = message["modules"]
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
        """Import the engine."""
        self._guarded(self._session.start)

    def started(self) -> None:
        """Return at once: ``start`` has imported the engine already."""

    def open(self, first: bool, batch_limit: int | None) -> Opened:
        """Load, prepare, verify in the first worker of the cell, and warm up."""
        return cast(Opened, self._guarded(lambda: self._session.open(first, batch_limit)))

    def sample(self, calls: int) -> TimedSample:
        """Take one sample."""
        return cast(TimedSample, self._guarded(lambda: self._session.sample(calls)))

    def memory(self) -> MemoryPass | None:
        """Run the timed call once more and watch this process's memory.

        What other cells of this process have left since this one was prepared cannot be told from its own.
        """
        before = self._guarded(self._session.trim) | {"retained": 0}
        with memory.watch_this_process() as peak:
            answer = dict(self._guarded(self._session.memory_growth))
        if "status" in answer:
            return None
        answer["peak"] = max(peak.bytes, before["resident"] + answer.pop("growth"))
        return cast(MemoryPass, before | answer | peak.on_huge_pages())

    def accuracy(self) -> dict[str, Any]:
        """Train to the end."""
        return dict(self._guarded(self._session.accuracy))

    def facts(self) -> dict[str, Any]:
        """Return facts and metrics of the calls so far."""
        return dict(self._guarded(self._session.facts))

    def finish(self, shared: dict[str, Any], seconds: float) -> dict[str, Any]:
        """Return facts with parts, hit rates and limits, and ``shared`` with the values that this cell added."""
        return dict(self._guarded(lambda: self._session.finish(shared, seconds)))

    def resident(self) -> int:
        """Zero: no process beside this one."""
        return 0

    def close(self) -> None:
        """Close the engine, in whatever state a failure left it."""
        self._session.tell_modules()
        with suppress(Exception):
            self._session.close()
