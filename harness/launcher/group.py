"""Runs groups of cells: starts processes, deals tokens, keeps deadlines, writes records; standard library only."""

import importlib
import os
import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, Protocol

from harness.launcher.failure import CellFailed
from harness.launcher.lock import Busy, machine_lock
from harness.launcher.outcome import Outcome
from harness.launcher.process import Guard, cpu_ticks
from harness.launcher.remote import TICK, RemoteCell
from harness.launcher.turns import Budget, shuffled
from harness.measure import environment, memory
from harness.store.files import machine_slug, read_record, write_environment, write_record

__all__ = ["Busy", "run_groups"]

Json = dict[str, Any]
RESIDENT_SHARE = 0.6
FRESH_PROCESSES = 3
QUIET_SHARE = 0.01
QUIET_TICKS = 2


class Worker(Protocol):
    """One cell at work, here or in a process of its own; methods raise CellFailed."""

    environment: Json | None
    session: int | None

    def start(self) -> None: ...
    def started(self) -> None: ...
    def open(self) -> Json: ...
    def sample(self) -> Json: ...
    def memory(self) -> Json: ...
    def accuracy(self) -> Json: ...
    def finish(self, shared: Json) -> Json: ...
    def resident(self) -> int: ...
    def close(self) -> None: ...


def run_groups(
    groups: Sequence[Json], results: Path, *, on_event: Callable[[Json], None], wait: bool = True
) -> list[Json]:
    """Measure groups one after the other and return their records, each written when its cell is done.

    Raises Busy when another run holds the machine and ``wait`` is off, OSError when a record cannot be written,
    KeyboardInterrupt on Ctrl-C and SIGTERM, after the open cells of the group got ``interrupted`` records.
    """
    total, before, records = sum(len(group["cells"]) for group in groups), 0, []
    with ExitStack() as stack:
        stack.enter_context(_terminate_as_interrupt())
        guard = None
        if any(_in_process(cell) for group in groups for cell in group["cells"]):
            waiting = {"event": "waiting", "cell": 0, "of": total}
            stack.enter_context(machine_lock(wait, lambda who: on_event(waiting | {"for": who})))
            guard = Guard()
            stack.callback(guard.close)
        for group in groups:
            records += GroupRun(group, results, guard, _placed(on_event, before, total)).run()
            before += len(group["cells"])
    return records


def _placed(on_event: Callable[[Json], None], before: int, total: int) -> Callable[[Json], None]:
    """Number a group's cells among all of the run."""
    return lambda event: on_event(event | {"cell": event["cell"] + before, "of": total})


def _in_process(cell: Json) -> bool:
    return not cell.get("status") and cell["config"]["launcher"]["name"] == "process"


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
    """One group from start to records."""

    def __init__(self, group: Json, results: Path, guard: Guard | None, on_event: Callable[[Json], None]) -> None:
        self.cells: list[Json] = group["cells"]
        self.seed = f"{group['key']} {self.cells[0]['config'].get('seed', 0)}" if self.cells else ""
        self.results, self.guard, self.on_event = results, guard, on_event
        self.outcomes = [Outcome(cell, group["id"]) for cell in self.cells]
        self.workers: dict[int, Worker] = {}
        self.records: dict[int, Json] = {}
        self.device_shares: dict[int, float] = {}
        self.shared: Json = {}
        self.token = 0

    def run(self) -> list[Json]:
        """Measure all cells and return their records in the order of the cells."""
        try:
            for index, cell in enumerate(self.cells):
                if cell.get("status"):
                    self._fail(index, CellFailed(cell["status"], cell.get("message") or ""))
            if not self._together():
                self._in_fresh_processes()
        except BaseException as error:
            self._abandon(error)
            raise
        finally:
            for index in list(self.workers):
                self._close(index)
        return [self.records[index] for index in range(len(self.cells))]

    def _together(self) -> bool:
        """Deal tokens to processes that live side by side; False when they do not fit into memory together."""
        self._start_all()
        for index in list(self.workers):
            self._open(index)
            if len(self.workers) > 1 and not self._fits():
                for other in list(self.workers):
                    self._close(other)
                return False
        budgets = {index: Budget(self._measure(index)) for index in self.workers}
        round_number = 0
        while waiting := [index for index in self.workers if not budgets[index].done]:
            for index in shuffled(waiting, self.seed, round_number):
                self._sample(index, budgets[index])
            round_number += 1
        for index in list(self.workers):
            self._conclude(index)
        return True

    def _in_fresh_processes(self) -> None:
        """Deal rounds of fresh processes, each alone, that share the samples of a cell until it has enough of them."""
        whole = {index: Budget(self._measure(index)) for index in self._open_cells()}
        for part in range(FRESH_PROCESSES):
            for index in shuffled(self._open_cells(), self.seed, part):
                self._start(index)
                self._started(index)
                self._open(index)
                budget = Budget(self._measure(index), 1.0 / FRESH_PROCESSES)
                while index in self.workers and not budget.done:
                    self._sample(index, budget)
                whole[index].seconds += budget.seconds
                if index in self.workers and (whole[index].done or part == FRESH_PROCESSES - 1):
                    self._conclude(index)
                elif index in self.workers:
                    self._close(index)

    def _open_cells(self) -> list[int]:
        return [index for index in range(len(self.cells)) if index not in self.records]

    def _measure(self, index: int) -> Json:
        measure: Json = self.cells[index]["config"]["measure"]
        return measure

    def _fits(self) -> bool:
        held = sum(worker.resident() for worker in self.workers.values()) / memory.total()
        return max(held, sum(self.device_shares.get(index, 0.0) for index in self.workers)) <= RESIDENT_SHARE

    def _start_all(self) -> None:
        """Let all cells import their engines, one on each core; what follows is timed and done in turns."""
        cells, cores = self._open_cells(), max(1, len(os.sched_getaffinity(0)))
        for first in range(0, len(cells), cores):
            side_by_side = cells[first : first + cores]
            for index in side_by_side:
                self._start(index)
            for index in side_by_side:
                self._started(index)

    def _start(self, index: int) -> None:
        self.on_event({"event": "start", "cell": index, "path": self.cells[index]["path"]})
        with self._failing(index):
            self.workers[index] = self._worker(index)
            self.workers[index].start()

    def _started(self, index: int) -> None:
        if index in self.workers:
            with self._failing(index):
                self.workers[index].started()

    @contextmanager
    def _failing(self, index: int) -> Iterator[None]:
        try:
            yield
        except CellFailed as failure:
            self._fail(index, failure)

    def _open(self, index: int) -> None:
        if index not in self.workers:
            return
        try:
            answer = self.workers[index].open()
        except CellFailed as failure:
            self._fail(index, failure)
            return
        self.outcomes[index].environment = self.workers[index].environment
        self.device_shares[index] = answer.pop("device_share", 0.0)
        self.outcomes[index].opened(answer)
        self.on_event({"event": "ready", "cell": index, "prepare": answer["prepare"], "parity": answer.get("parity")})

    def _worker(self, index: int) -> Worker:
        cell = self.cells[index]

        def progress(event: Json) -> None:
            self.on_event(event | {"cell": index})

        if _in_process(cell):
            assert self.guard is not None
            return RemoteCell(cell, self.guard, progress)
        # Not imported above: it needs numpy and the engine, which a parent of processes does without.
        worker: Worker = importlib.import_module("harness.launcher.inline").InlineCell(cell, progress)
        return worker

    def _sample(self, index: int, budget: Budget) -> None:
        waiting = {worker.session for other, worker in self.workers.items() if other != index and worker.session}
        before = cpu_ticks(waiting)
        try:
            sample = self.workers[index].sample()
        except CellFailed as failure:
            self._fail(index, failure)
            return
        stolen = TICK * (cpu_ticks(waiting) - before)
        counts = budget.accepts(stolen > max(QUIET_SHARE * sample["cpu_seconds"] * sample["ran"], QUIET_TICKS * TICK))
        if counts:
            budget.seconds.append(sample["seconds"])
        else:
            budget.disturbed += 1
        self.outcomes[index].sampled(sample, self.token, counts)
        self.token += 1
        event = {"event": "sample" if counts else "repeat", "cell": index, "seconds": sample["seconds"]}
        self.on_event(event | {"samples": len(budget.seconds)})

    def _conclude(self, index: int) -> None:
        """Take the passes that need the machine alone, then write the record."""
        worker, outcome, config = self.workers[index], self.outcomes[index], self.cells[index]["config"]
        try:
            if config["measure"]["memory"]:
                outcome.remembered(worker.memory())
            if config["scenario"]["name"] == "train" and config["scenario"]["train_to_end"]:
                outcome.concluded(worker.accuracy())
            answer = worker.finish(self.shared)
            self.shared = answer.pop("shared")
            outcome.concluded(answer)
        except CellFailed as failure:
            outcome.failure = failure
        self._close(index)
        self._write(index)

    def _fail(self, index: int, failure: CellFailed) -> None:
        self.outcomes[index].failure = failure
        self._close(index)
        self._write(index)

    def _abandon(self, error: BaseException) -> None:
        """Give open cells their records after Ctrl-C; after anything else they are simply measured again."""
        if isinstance(error, KeyboardInterrupt):
            for index in self._open_cells():
                self._fail(index, CellFailed("interrupted", "ended by Ctrl-C or SIGTERM"))

    def _close(self, index: int) -> None:
        if worker := self.workers.pop(index, None):
            self.outcomes[index].environment = worker.environment or self.outcomes[index].environment
            worker.close()

    def _write(self, index: int) -> None:
        outcome, config = self.outcomes[index], self.cells[index]["config"]
        where = outcome.environment or environment.describe(
            config["backend"]["name"], config["threads"], config["device"]
        )
        name = write_environment(self.results, where)
        path = self.cells[index]["path"].replace("{environment}", name)
        if "{machine}" in path:  # a plan made elsewhere
            path = path.replace("{machine}", machine_slug())
        self.records[index] = dict(read_record(write_record(self.results, path, outcome.record(name))))
        event = {"event": "done", "cell": index, "path": path, "status": self.records[index]["status"]}
        self.on_event(event | {"record": self.records[index]})
