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

from harness.launcher.allowance import Allowance
from harness.launcher.cell_run import CellRun
from harness.launcher.failure import CellFailed
from harness.launcher.lock import Busy, machine_lock
from harness.launcher.messages import Event, PlannedGroup
from harness.launcher.outcome import Outcome
from harness.launcher.process import Guard
from harness.launcher.retry_alone import RetryAlone
from harness.launcher.turns import calls_of_a_turn, shuffled
from harness.launcher.worker import in_process
from harness.measure import memory
from harness.measure.sources import commit

__all__ = ["Busy", "run_groups", "terminate_as_interrupt"]

RESIDENT_SHARE = 0.6
IMPORTED_BYTES = 1 << 29  # of a worker with its engine, an estimate from above


def run_groups(
    groups: Sequence[PlannedGroup],
    results: Path,
    *,
    on_event: Callable[[Event], None],
    wait: bool = True,
    locked: bool = False,
    still_open: Callable[[PlannedGroup], bool] = lambda group: True,
) -> list[dict[str, Any]]:
    """Measure groups one after the other and return their records, each written when its cell is done.

    A failure has no file where a good record of an earlier run counts (``harness.launcher.earlier``).
    Groups that are not ``still_open`` when the machine is free are left out: another run may have finished them. The
    machine's lock is taken unless the caller has it (``locked``).
    Raises Busy when another run holds the machine and ``wait`` is off, OSError when a record cannot be written,
    LauncherError when a process cannot be ended, KeyboardInterrupt on Ctrl-C and SIGTERM, after the open cells of the
    group got ``interrupted`` records, those without a good one.
    """
    total = sum(len(group["cells"]) for group in groups)
    records: list[dict[str, Any]] = []
    with ExitStack() as stack:
        stack.enter_context(terminate_as_interrupt())
        guard = None
        if any(in_process(cell) for group in groups for cell in group["cells"]):
            if not locked:
                waiting = {"event": "waiting", "cell": 0, "of": total}
                stack.enter_context(machine_lock(wait, lambda who: on_event(waiting | {"for": who})))
            guard = Guard()
            stack.callback(guard.close)
        groups = [group for group in groups if still_open(group)]
        commit()  # the one that records name: somebody may commit, or check another out, before the first is written
        total = sum(len(group["cells"]) for group in groups)
        for group in groups:
            numbered = partial(_numbered, on_event, len(records), total)
            records += GroupRun(group, results, guard, numbered).run()
    return records


def _numbered(on_event: Callable[[Event], None], before: int, total: int, event: Event) -> None:
    """Pass on an event whose cell is numbered among all of the run."""
    on_event(event | {"cell": event["cell"] + before, "of": total})


@contextmanager
def terminate_as_interrupt() -> Iterator[None]:
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
    """One run of a group, from the start of its cells to their records, which all have the id of this run.

    Every cell is first opened once, which verifies it and tells how long its calls take; then its samples are taken by
    fresh processes, in as many passes over the group as there are processes of a cell.
    """

    def __init__(
        self, group: PlannedGroup, results: Path, guard: Guard | None, on_event: Callable[[Event], None]
    ) -> None:
        run = uuid.uuid4().hex[:12]
        self.cells: list[CellRun] = []
        for number, cell in enumerate(group["cells"]):
            tell = partial(_of_cell, on_event, number)
            self.cells.append(CellRun(cell, Outcome(cell, group["id"], run), results, guard, tell))
        self.seed = f"{group['key']} {self.cells[0].config['seed']}" if self.cells else ""
        self.allowance = Allowance(min((cell.measure["group_seconds"] for cell in self.cells), default=0.0))
        self.retry = RetryAlone[CellRun]()
        for cell_run in self.cells:
            cell_run.tried_alone = self._tried_alone
        self.shared: dict[str, Any] = {}
        self.calls = 1
        self.position = 0
        self.round = 0

    def run(self) -> list[dict[str, Any]]:
        """Measure all cells and return their records in the order of the cells."""
        try:
            for cell in self.cells:
                if status := cell.cell["status"]:
                    cell.fail(CellFailed(status, cell.cell["message"]))
            self._measure()
        except KeyboardInterrupt:
            for cell in self._open_cells():
                cell.fail(CellFailed("interrupted", "ended by Ctrl-C or SIGTERM"))
            raise
        finally:
            with ExitStack() as closing:  # one that cannot be closed leaves no other open
                for cell in self.cells:
                    closing.callback(cell.close)
        return [cell.record for cell in self.cells if cell.record is not None]

    def _measure(self) -> None:
        side_by_side = self._open_first()
        warm_calls = [cell.warm_call for cell in self._together() if cell.warm_call is not None]
        self.calls = calls_of_a_turn(warm_calls, self.cells[0].measure) if self.cells else 1
        for number in range(max((cell.processes for cell in self._together()), default=0)):
            self._pass([cell for cell in self._together() if number < cell.processes], number, side_by_side)
        while self.retry.waiting:
            alone = self.retry.waiting.pop(0)
            for number in range(alone.processes):
                self._pass([alone] if alone.record is None else [], number, side_by_side=False)

    def _pass(self, cells: list[CellRun], number: int, side_by_side: bool) -> None:
        """Let process ``number`` of cells take its samples; those for which no time is left end with what they have."""
        self.allowance.fit(cells, self.calls, number)
        for cell in cells:
            if cell.processes == number:
                self._end_early(cell)
        cells = [cell for cell in cells if cell.record is None]
        if side_by_side:
            self._side_by_side(cells, number)
        else:
            self._one_after_the_other(cells, number)

    def _tried_alone(self, cell: CellRun, failure: CellFailed) -> bool:
        return self.retry.takes(cell, failure, sum(other is not cell for other in self._at_work()))

    def _open_cells(self) -> list[CellRun]:
        """Cells without a record."""
        return [cell for cell in self.cells if cell.record is None]

    def _together(self) -> list[CellRun]:
        """Cells without a record that are measured in turns; the others of them are tried alone at the end."""
        return [cell for cell in self._open_cells() if cell not in self.retry.waiting]

    def _at_work(self) -> list[CellRun]:
        """Cells with an open worker."""
        return [cell for cell in self.cells if cell.worker is not None]

    def _open_first(self) -> bool:
        """Open each cell for the first time; False when the workers cannot live side by side and are closed again."""
        cells, size = self._open_cells(), self._wave
        for first in range(0, len(cells), size):
            self._start(cells[first : first + size])
            if len(self._at_work()) > 1 and not self._fit():
                self._open_alone()
                return False
        for cell in self._at_work():
            cell.open()
            if len(self._at_work()) > 1 and not self._fit():
                self._open_alone()
                return False
        return True

    def _open_alone(self) -> None:
        """Open the cells that were not open yet, one at a time, the first by its worker where that has started."""
        started = next((cell for cell in self._at_work() if cell.opened is None), None)
        for cell in self._at_work():
            if cell is not started:
                cell.close()
        for cell in self._together():
            if cell.opened is None:
                if cell is not started:
                    self._start([cell])
                cell.open()
                cell.close()

    def _side_by_side(self, cells: list[CellRun], number: int) -> None:
        """Deal turns to fresh workers that live side by side; those of the first opening take pass number 0."""
        if number > 0:
            self._start(cells)
            for cell in cells:
                cell.open()
        for cell in self._at_work():
            cell.begin_samples()
        while waiting := [cell for cell in self._at_work() if not cell.budget.done]:
            for cell in shuffled(waiting, self.seed, self.round):
                self._sample(cell)
            self.round += 1
        # Before one of them ends: pages of files that all map count in equal shares.
        for cell in self._at_work():
            self._measure_memory(cell, number)
        for cell in self._at_work():
            self._end_process(cell, number)

    def _one_after_the_other(self, cells: list[CellRun], number: int) -> None:
        """Measure each cell in a fresh process that is alone, the cells in shuffled order."""
        for cell in shuffled(cells, self.seed, number):
            self._start([cell])
            cell.open()
            cell.begin_samples()
            while cell.worker is not None and not cell.budget.done:
                self._sample(cell)
            self._measure_memory(cell, number)
            self._end_process(cell, number)

    def _measure_memory(self, cell: CellRun, number: int) -> None:
        """Take the memory pass of a cell in the last of its processes."""
        if number + 1 == cell.processes:
            self.allowance.limit(cell)
            cell.measure_memory()

    def _end_process(self, cell: CellRun, number: int) -> None:
        """End process ``number`` of a cell, the last one with the other passes and the record."""
        self.allowance.limit(cell)
        if cell.worker is not None and number + 1 == cell.processes:
            self.shared = cell.conclude(self.shared)
        cell.close()

    def _end_early(self, cell: CellRun) -> None:
        """End a cell with the samples of its earlier processes, in one that takes none."""
        cell.ending = True
        self._start([cell])
        cell.open()
        self._measure_memory(cell, cell.processes - 1)
        self._end_process(cell, cell.processes - 1)

    def _start(self, cells: list[CellRun]) -> None:
        """Let cells import their engines, some at once; all later steps are done in turns."""
        for first in range(0, len(cells), self._wave):
            wave = cells[first : first + self._wave]
            for cell in wave:
                self.allowance.limit(cell)
                cell.start()
            for cell in wave:
                cell.started()

    @property
    def _wave(self) -> int:
        """Cells that import their engines at once: as many as there are cores, and as memory holds."""
        cores = len(os.sched_getaffinity(0))
        return max(1, min(cores, int(RESIDENT_SHARE * memory.total() / IMPORTED_BYTES)))

    def _fit(self) -> bool:
        """Whether the open workers use no more than their share of the memory of the machine and of its device."""
        host = sum(cell.worker.resident() for cell in self.cells if cell.worker is not None) / memory.total()
        return max(host, sum(cell.device_share for cell in self._at_work())) <= RESIDENT_SHARE

    def _sample(self, cell: CellRun) -> None:
        waiting = {other.tree for other in self._at_work() if other is not cell and other.tree is not None}
        self.allowance.limit(cell)
        cell.sample(self._calls_of(cell), self.position, waiting)
        self.position += cell.worker is not None

    def _calls_of(self, cell: CellRun) -> int:
        """Counted calls of a turn: the group's, of a cell that is tried alone no more than fit its own turn."""
        if cell not in self.retry.tried or cell.warm_call is None:
            return self.calls
        return min(self.calls, calls_of_a_turn([cell.warm_call], cell.measure))


def _of_cell(on_event: Callable[[Event], None], number: int, event: Event) -> None:
    on_event(event | {"cell": number})
