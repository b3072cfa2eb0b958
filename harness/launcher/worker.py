"""The worker of a cell: a process of its own or this one, with the same methods."""

import importlib
from collections.abc import Callable
from typing import Any, Protocol

from harness.launcher.messages import Event, MemoryPass, Modules, Opened, PlannedCell, TimedSample
from harness.launcher.process import Guard
from harness.launcher.remote import RemoteCell


class CellWorker(Protocol):
    """One cell at work; methods raise CellFailed.

    ``environment`` and ``modules`` are what its session told last; ``tree`` is its process tree, None without one;
    ``left`` the seconds until the cell's deadline, ``ends`` the moment of ``time.monotonic`` that ends it before.
    """

    environment: dict[str, Any] | None
    modules: Modules
    tree: int | None
    left: float
    ends: float

    def start(self) -> None:
        """Begin to import the engine; does not wait where another process imports it."""
        ...

    def started(self) -> None:
        """Wait until the engine is imported."""
        ...

    def open(self, first: bool, batch_limit: int | None) -> Opened:
        """Load, prepare, verify in the first process of the cell, and warm up; later ones take its batch limit."""
        ...

    def sample(self, calls: int) -> TimedSample:
        """Take one sample: a discarded call, then ``calls`` counted ones."""
        ...

    def memory(self) -> MemoryPass | None:
        """Run the timed call once more and watch the memory of the process tree; None where it does not fit."""
        ...

    def accuracy(self) -> dict[str, Any]:
        """Train to the end."""
        ...

    def facts(self) -> dict[str, Any]:
        """Return facts and metrics of the calls so far."""
        ...

    def finish(self, shared: dict[str, Any], seconds: float) -> dict[str, Any]:
        """Return facts with parts, hit rates and limits, and ``shared`` with the values that this cell added.

        ``seconds`` is the cell's time of a timed call over all of its processes.
        """
        ...

    def resident(self) -> int:
        """Resident bytes of the process tree now."""
        ...

    def close(self) -> None:
        """End the worker."""
        ...


def worker_of(cell: PlannedCell, guard: Guard | None, progress: Callable[[Event], None]) -> CellWorker:
    """Make the worker that a cell's launcher names; raises CellFailed."""
    if in_process(cell):
        assert guard is not None
        return RemoteCell(cell, guard, progress)
    # Not imported above: it imports numpy and the session, which the parent of processes does not need.
    worker: CellWorker = importlib.import_module("harness.launcher.inline").InlineCell(cell, progress)
    return worker


def in_process(cell: PlannedCell) -> bool:
    """Whether a cell will be started in a process of its own."""
    return not cell["status"] and cell["config"]["launcher"]["name"] == "process"
