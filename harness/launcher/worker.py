"""The worker of a cell: a process of its own or this one, with the same methods."""

import importlib
from collections.abc import Callable
from typing import Any, Protocol

from harness.launcher.messages import Event, MemoryPass, Modules, Opened, PlannedCell, TimedSample
from harness.launcher.process import Guard
from harness.launcher.remote import RemoteCell


class CellWorker(Protocol):
    """One cell at work; methods raise CellFailed.

    ``environment`` and ``modules`` are the last that it told of where and what it runs, ``tree`` is its process tree.
    """

    environment: dict[str, Any] | None
    modules: Modules
    tree: int | None

    def start(self) -> None:
        """Begin to import the engine; returns at once where that happens in another process."""
        ...

    def started(self) -> None:
        """Wait until the engine is imported."""
        ...

    def open(self) -> Opened:
        """Load, prepare, verify and warm up."""
        ...

    def sample(self) -> TimedSample:
        """Take one sample."""
        ...

    def memory(self) -> MemoryPass:
        """Run the timed call once more and watch the memory of the process tree."""
        ...

    def accuracy(self) -> dict[str, Any]:
        """Train to the end."""
        ...

    def finish(self, shared: dict[str, Any]) -> dict[str, Any]:
        """Return facts, metrics, hit rates and limits, and ``shared`` with the values that this cell added."""
        ...

    def resident(self) -> int:
        """Bytes that the process tree has in memory now."""
        ...

    def close(self) -> None:
        """End it."""
        ...


def worker_of(cell: PlannedCell, guard: Guard | None, progress: Callable[[Event], None]) -> CellWorker:
    """Make the worker that a cell's launcher names; raises CellFailed."""
    if in_process(cell):
        assert guard is not None
        return RemoteCell(cell, guard, progress)
    # Not imported above: it needs numpy and the engine, which a parent of processes does without.
    worker: CellWorker = importlib.import_module("harness.launcher.inline").InlineCell(cell, progress)
    return worker


def in_process(cell: PlannedCell) -> bool:
    """Whether a cell will be started in a process of its own."""
    return not cell["status"] and cell["config"]["launcher"]["name"] == "process"
