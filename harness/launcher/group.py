"""Runs groups of cells: starts workers, deals their turns, writes records; standard library and msgspec only."""

import os
import signal
import threading
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from harness.launcher.cell_run import CellRun
from harness.launcher.failure import CellFailed
from harness.launcher.lock import Busy, machine_lock
from harness.launcher.messages import Event, PlannedGroup
from harness.launcher.outcome import Outcome
from harness.launcher.process import Guard, cpu_ticks
from harness.launcher.turns import Budget, shuffled
from harness.launcher.worker import in_process
from harness.measure import memory

__all__ = ["Busy", "run_groups"]

RESIDENT_SHARE = 0.6
FRESH_PROCESSES = 3


def run_groups(
    groups: Sequence[PlannedGroup], results: Path, *, on_event: Callable[[Event], None], wait: bool = True
) -> list[dict[str, Any]]:
    """Measure groups one after the other and return their records, each written when its cell is done.

    Raises Busy when another run holds the machine and ``wait`` is off, OSError when a record cannot be written,
    KeyboardInterrupt on Ctrl-C and SIGTERM, after the open cells of the group got ``interrupted`` records.
    """
    total = sum(len(group["cells"]) for group in groups)
    records: list[dict[str, Any]] = []
    with ExitStack() as stack:
        stack.enter_context(_terminate_as_interrupt())
        guard = None
        if any(in_process(cell) for group in groups for cell in group["cells"]):
            waiting = {"event": "waiting", "cell": 0, "of": total}
            stack.enter_context(machine_lock(wait, lambda who: on_event(waiting | {"for": who})))
            guard = Guard()
            stack.callback(guard.close)
        for group in groups:
            numbered = partial(_numbered, on_event, len(records), total)
            records += GroupRun(group, results, guard, numbered).run()
    return records


def _numbered(on_event: Callable[[Event], None], before: int, total: int, event: Event) -> None:
    """Pass on an event whose cell is numbered among all of the run."""
    on_event(event | {"cell": event["cell"] + before, "of": total})


@contextmanager
def _terminate_as_interrupt() -> Iterator[None]:
    """Let SIGTERM end a run as Ctrl-C does."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


class GroupRun:
    """One run of a group, from the start of its cells to their records, which all have the id of this run."""

    def __init__(
        self, group: PlannedGroup, results: Path, guard: Guard | None, on_event: Callable[[Event], None]
    ) -> None:
        run = uuid.uuid4().hex[:12]
        self.cells: list[CellRun] = []
        for number, cell in enumerate(group["cells"]):
            tell = partial(_of_cell, on_event, number)
            self.cells.append(CellRun(cell, Outcome(cell, group["id"], run), results, guard, tell))
        self.seed = f"{group['key']} {self.cells[0].config['seed']}" if self.cells else ""
        self.shared: dict[str, Any] = {}
        self.position = 0

    def run(self) -> list[dict[str, Any]]:
        """Measure all cells and return their records in the order of the cells."""
        try:
            for cell in self.cells:
                if status := cell.cell["status"]:
                    cell.fail(CellFailed(status, cell.cell["message"]))
            if not self._side_by_side():
                self._in_fresh_processes()
        except KeyboardInterrupt:
            for cell in self._open_cells():
                cell.fail(CellFailed("interrupted", "ended by Ctrl-C or SIGTERM"))
            raise
        finally:
            for cell in self.cells:
                cell.close()
        return [cell.record for cell in self.cells if cell.record is not None]

    def _open_cells(self) -> list[CellRun]:
        """Cells without a record."""
        return [cell for cell in self.cells if cell.record is None]

    def _at_work(self) -> list[CellRun]:
        """Cells with an open worker."""
        return [cell for cell in self.cells if cell.worker is not None]

    def _side_by_side(self) -> bool:
        """Deal turns to workers that live side by side; False when they do not fit into memory together."""
        self._start_all()
        for cell in self._at_work():
            cell.open()
            if len(self._at_work()) > 1 and not self._fit():
                for other in self._at_work():
                    other.close()
                return False
        round_number = 0
        while waiting := [cell for cell in self._at_work() if not cell.budget.done]:
            for cell in shuffled(waiting, self.seed, round_number):
                self._sample(cell, cell.budget)
            round_number += 1
        for cell in self._at_work():
            self.shared = cell.conclude(self.shared)
        return True

    def _in_fresh_processes(self) -> None:
        """Measure each cell in several fresh processes, one process at a time, in shuffled rounds of the cells."""
        for part in range(FRESH_PROCESSES):
            for cell in shuffled(self._open_cells(), self.seed, part):
                cell.start()
                cell.started()
                cell.open()
                budget = Budget(cell.measure, 1.0 / FRESH_PROCESSES)
                while cell.worker is not None and not budget.done:
                    self._sample(cell, budget)
                cell.budget.seconds += budget.seconds
                if cell.worker is not None and (cell.budget.done or part == FRESH_PROCESSES - 1):
                    self.shared = cell.conclude(self.shared)
                cell.close()

    def _start_all(self) -> None:
        """Let all cells import their engines, as many at once as there are cores; all later steps are done in turns."""
        cells, cores = self._open_cells(), max(1, len(os.sched_getaffinity(0)))
        for first in range(0, len(cells), cores):
            wave = cells[first : first + cores]
            for cell in wave:
                cell.start()
            for cell in wave:
                cell.started()

    def _fit(self) -> bool:
        """Whether the open workers use no more than their share of the memory of the machine and of its device."""
        host = sum(cell.worker.resident() for cell in self.cells if cell.worker is not None) / memory.total()
        return max(host, sum(cell.device_share for cell in self._at_work())) <= RESIDENT_SHARE

    def _sample(self, cell: CellRun, budget: Budget) -> None:
        waiting = {other.tree for other in self._at_work() if other is not cell and other.tree is not None}
        cell.sample(budget, self.position, partial(cpu_ticks, waiting))
        self.position += cell.worker is not None


def _of_cell(on_event: Callable[[Event], None], number: int, event: Event) -> None:
    on_event(event | {"cell": number})
