"""The worker of a cell that runs in a child process: requests, answers, its deadline and its memory."""

import errno
import math
import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, cast

from backends.memory_errors import kills
from harness.launcher import allocators
from harness.launcher.failure import CellFailed, status_of_exit
from harness.launcher.messages import CellConfig, Event, MemoryPass, Modules, Opened, PlannedCell, TimedSample
from harness.launcher.process import Child, ChildEnded, Guard, cpu_ticks_of_helpers, members, page_faults_of_helpers
from harness.measure import memory
from harness.measure.shell import THREAD_VARIABLES

ROOT = Path(__file__).resolve().parents[2]
NO_PROGRAM = (errno.ENOENT, errno.EACCES, errno.ENOEXEC, errno.ENOTDIR, errno.ELOOP, errno.ENAMETOOLONG)
TICK = 1.0 / os.sysconf("SC_CLK_TCK")
Answer = dict[str, Any]


def child_environment(config: CellConfig) -> dict[str, str]:
    """Return the environment variables of a cell: this checkout importable, its threads, its allocator."""
    path = os.pathsep.join(part for part in (str(ROOT), os.environ.get("PYTHONPATH")) if part)
    # With the safe path a folder named "datasets" in the user's working directory does not hide ours.
    variables = {"PYTHONPATH": path, "PYTHONSAFEPATH": "1", "PYTHONUNBUFFERED": "1", "PYTHONFAULTHANDLER": "1"}
    variables |= dict.fromkeys(THREAD_VARIABLES, str(config["threads"]))
    return allocators.environment_with(config["launcher"]["allocator"], os.environ | variables)


class RemoteCell:
    """The worker of one cell; every method asks the child and raises CellFailed when it cannot answer."""

    def __init__(self, cell: PlannedCell, guard: Guard, progress: Callable[[Event], None]) -> None:
        config = cell["config"]
        self.environment: dict[str, Any] | None = None
        self.modules: Modules = {}
        self._cell, self._progress = cell, progress
        self.left, self.ends = float(config["measure"]["deadline_seconds"]), math.inf
        if refusal := allocators.ALLOCATORS[config["launcher"]["allocator"]].refusal():
            raise CellFailed(*refusal)
        command = [config["launcher"]["python"] or sys.executable, "-m", "harness.cell", "--child"]
        self._kills = kills()
        try:
            self._child = Child(command, child_environment(config), guard)
        except OSError as error:
            if error.errno not in NO_PROGRAM or error.filename != command[0]:
                raise  # a full disk or a want of processes is no fault of the cell
            raise CellFailed("error", f"launcher.python={command[0]} cannot be started: {error}") from error
        self.tree: int | None = self._child.tree

    def start(self) -> None:
        """Let the child import its engine, without waiting for it."""
        self._send("start", cell=self._cell)

    def started(self) -> None:
        """Wait until the engine is imported."""
        self._answer("start")

    def open(self, first: bool, batch_limit: int | None) -> Opened:
        """Load, prepare, verify in the first process of the cell, and warm up."""
        return cast(Opened, self._ask("open", first=first, batch_limit=batch_limit))

    def sample(self, calls: int) -> TimedSample:
        """Take one sample; CPU seconds and page faults include those of the processes that the child started."""
        tree = self._child.tree
        before, faults_before = cpu_ticks_of_helpers(tree), page_faults_of_helpers(tree)
        answer = self._ask("sample", calls=calls)
        ticks, faults = cpu_ticks_of_helpers(tree) - before, page_faults_of_helpers(tree)
        cpu_seconds = answer["cpu_seconds"] + TICK * max(0, ticks) / answer["ran"]
        for kind, after, earlier in zip(("minor", "major"), faults, faults_before, strict=True):
            answer["page_faults"][kind] += max(0, after - earlier) * calls // answer["ran"]
        return cast(TimedSample, answer | {"cpu_seconds": cpu_seconds})

    def memory(self) -> MemoryPass | None:
        """Run the timed call once more; the parent reads the tree's memory, the child its own high-water mark."""
        before, peak = self._ask("trim"), memory.Peak()
        answer = self._ask("memory_growth", meanwhile=lambda: peak.read(members(self._child.tree)))
        if "status" in answer:
            return None
        answer["peak"] = max(peak.bytes, before["resident"] + answer.pop("growth"))
        return cast(MemoryPass, before | answer | peak.on_huge_pages())

    def accuracy(self) -> Answer:
        """Train to the end."""
        return self._ask("accuracy")

    def facts(self) -> Answer:
        """Return facts and metrics of the calls so far."""
        return self._ask("facts")

    def finish(self, shared: Answer, seconds: float) -> Answer:
        """Return facts with parts, hit rates and limits, and ``shared`` with the values that this cell added."""
        return self._ask("finish", shared=shared, seconds=seconds)

    def resident(self) -> int:
        """Resident bytes of the process tree now."""
        return memory.proportional(members(self._child.tree))

    def close(self) -> None:
        """End the process tree."""
        self._child.end()

    def _ask(self, do: str, meanwhile: Callable[[], None] | None = None, **more: Any) -> Answer:
        self._send(do, **more)
        return self._answer(do, meanwhile)

    def _send(self, do: str, **more: Any) -> None:
        with self._alive():
            self._child.send({"do": do, "left": min(self.left, self.ends - time.monotonic()), **more})

    def _answer(self, do: str, meanwhile: Callable[[], None] | None = None) -> Answer:
        start = time.monotonic()
        try:
            with self._alive():
                return self._received(do, start, meanwhile)
        finally:
            self.left -= time.monotonic() - start

    @contextmanager
    def _alive(self) -> Iterator[None]:
        try:
            yield
        except ChildEnded as ended:
            tail, counted = self._child.tail(), kills()
            is_memory_short = counted is None or counted != self._kills
            raise CellFailed(*status_of_exit(ended.returncode, tail, is_memory_short), tail) from ended

    def _received(self, do: str, start: float, meanwhile: Callable[[], None] | None) -> Answer:
        while True:
            now = time.monotonic()
            left = min(self.left - (now - start), self.ends - now)
            if left <= 0:
                raise CellFailed("timeout", self._late(do), self._child.tail())
            message = self._child.receive(left if meanwhile is None else memory.INTERVAL)
            if meanwhile is not None:
                meanwhile()
            if message is None:
                continue
            kind = message.pop("event")
            if kind == "answer":
                return message
            if kind == "environment":
                self.environment = message["environment"]
            elif kind == "modules":
                self.modules = message["modules"]
            elif kind == "end":
                raise CellFailed(log_tail=self._child.tail(), **message)
            else:
                self._progress({"event": kind} | message)

    def _late(self, do: str) -> str:
        measure = self._cell["config"]["measure"]
        cell, group = measure["deadline_seconds"], measure["group_seconds"]
        limits = f"measure.deadline_seconds={cell:g} of the cell and measure.group_seconds={group:g} of its group"
        return f"no answer to {do!r} within {limits}: raise the one that ended it"
