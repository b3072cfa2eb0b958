"""One cell of a group from its start to its record; a failure is recorded as well."""

import math
import os
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from datasets.registry import DATASETS
from harness.launcher import earlier
from harness.launcher.failure import CellFailed
from harness.launcher.interference import between, read, tolerated_load
from harness.launcher.messages import CellConfig, Event, MeasureSection, Modules, Opened, PlannedCell
from harness.launcher.outcome import Outcome
from harness.launcher.process import Guard
from harness.launcher.turns import Budget
from harness.launcher.worker import CellWorker, worker_of
from harness.measure import environment, memory
from harness.measure.control_group import usable_cores
from harness.measure.crowds import asked_for, oversubscribed
from harness.measure.sources import commit, path_today, with_sources
from harness.store.completion import complete
from harness.store.files import environment_name, machine_slug, read_record, write_environment, write_record


class CellRun:
    """A planned cell, its worker while one is open, its answers so far, and its record once that is written."""

    def __init__(
        self, cell: PlannedCell, outcome: Outcome, results: Path, guard: Guard | None, tell: Callable[[Event], None]
    ) -> None:
        """Take a planned cell; ``tell`` is called with each of its events."""
        self.cell, self.outcome, self.results, self.guard, self.tell = cell, outcome, results, guard, tell
        self.worker: CellWorker | None = None
        self.record: dict[str, Any] | None = None
        self.budget = Budget(self.measure)
        self.device_share = 0.0
        self.opened: Opened | None = None
        self.fresh_seconds = 0.0  # that a process of the cell takes before its first sample
        self.left = float(self.measure["deadline_seconds"])
        self.ends = math.inf  # when its group's time is over, of ``time.monotonic``
        self.processes = self.measure["processes"]  # fresh ones that take samples, fewer where the group's time ends
        self.ending = False  # with the processes that it has, in one that takes no samples
        self.tried_alone: Callable[[CellRun, CellFailed], bool] = lambda cell, failure: False

    @property
    def config(self) -> CellConfig:
        """The cell's configuration."""
        return self.cell["config"]

    @property
    def measure(self) -> MeasureSection:
        """How much is measured."""
        return self.config["measure"]

    @property
    def trains_to_end(self) -> bool:
        """Whether the cell has a pass for accuracy."""
        scenario = self.config["scenario"]
        return scenario["name"] == "train" and scenario["train_to_end"]

    @property
    def warm_call(self) -> float | None:
        """Seconds of a warm call: of the warm-ups once a process of the cell is ready, without them of a sample."""
        warmed = None if self.opened is None else self.opened["warm_call"]
        return warmed if warmed is not None or not self.budget.seconds else self.budget.seconds[-1]

    @property
    def seconds_left(self) -> float:
        """Seconds until the cell's deadline."""
        return self.left if self.worker is None else self.worker.left

    @property
    def tree(self) -> int | None:
        """The worker's process tree, while it has one."""
        return None if self.worker is None else self.worker.tree

    def end_by(self, moment: float) -> None:
        """Let this worker and later ones answer until a moment of ``time.monotonic``, or their deadline if nearer."""
        self.ends = moment
        if self.worker is not None:
            self.worker.ends = moment

    def start(self) -> None:
        """Let a fresh worker import the engine, without waiting for it."""
        self.tell({"event": "start", "path": self.cell["path"]})
        with self._failure_recorded():
            self.worker = worker_of(self.cell, self.guard, self.tell)
            self.worker.left, self.worker.ends = self.left, self.ends
            self.worker.start()

    def started(self) -> None:
        """Wait until the engine is imported."""
        if self.worker is not None:
            with self._failure_recorded():
                self.worker.started()

    def open(self) -> None:
        """Load, prepare, verify in the first process, and warm up."""
        if self.worker is None:
            return
        first, limit = self.opened is None, None if self.opened is None else self.opened["batch_limit"]
        with self._failure_recorded():
            answer = self.worker.open(first, limit)
            self.fresh_seconds = sum(answer["prepare"].values()) + sum(answer["warmup"])
            self.device_share = answer.pop("device_share", 0.0)
            self.opened = answer
            self.outcome.add_opened(answer)
            self.tell({"event": "ready", "prepare": answer["prepare"], "parity": answer.get("parity")})

    def begin_samples(self) -> None:
        """Begin to take the samples of the open worker."""
        if self.worker is not None:
            assert self.opened is not None
            self.budget = Budget(self.measure)
            cores = len(os.sched_getaffinity(0))
            self.outcome.add_process(self.opened, tolerated_load(self.config["threads"], cores))

    def sample(self, calls: int, position: int, waiting: Collection[int]) -> None:
        """Take sample number ``position`` of the group; it does not count if others used the processor meanwhile."""
        assert self.worker is not None
        ours = () if self.worker.tree is None else (self.worker.tree,)
        with self._failure_recorded():
            before = read(ours, waiting, first=True)
            sample = self.worker.sample(calls)
            interference = between(before, read(ours, waiting, first=False))
            used, cores = sample["cpu_seconds"] * sample["ran"], len(os.sched_getaffinity(0))
            counts = self.budget.accepts(interference.disturbs(used, self.config["threads"], cores))
            self.budget.used_seconds += sample["first"] + sample["seconds"] * sample["calls"]
            if counts:
                self.budget.seconds.append(sample["seconds"])
            else:
                self.budget.disturbed += 1
            self.outcome.add_sample(sample, interference, position, counts)
            event = {"event": "sample" if counts else "repeat", "seconds": sample["seconds"]}
            self.tell(event | {"samples": self.outcome.samples})

    def measure_memory(self) -> None:
        """Take the pass for memory, where the configuration asks for it and the kernel tells any.

        A cell whose time or memory ends it has its record at once: the worker must not compute beside the others.
        """
        if self.worker is not None and self.measure["memory"] and memory.is_told():
            with self._failure_recorded():
                try:
                    passed = self.worker.memory()
                except CellFailed as failure:
                    self._end(self._without_facts(failure, " in the pass for memory"))
                    return
                if passed is not None:
                    self.outcome.add_memory(passed)

    def conclude(self, shared: dict[str, Any]) -> dict[str, Any]:
        """Take the passes for accuracy and limits, write the record, end the worker; returns the updated ``shared``."""
        assert self.worker is not None
        with self._failure_recorded():
            answer = self._finished(self.worker, shared)
            shared = answer.pop("shared", shared)
            self._end(answer)
        return shared

    def _finished(self, worker: CellWorker, shared: dict[str, Any]) -> dict[str, Any]:
        """Accuracy, facts, hit rates and limits; where time or memory end one, the samples stay and it says why."""
        try:
            if self.trains_to_end:
                self.outcome.add_answer(worker.accuracy())
        except CellFailed as failure:
            return self._without_facts(failure, " in the pass for accuracy")
        try:
            self.outcome.add_answer(worker.facts())
        except CellFailed as failure:
            return self._without_facts(failure)
        try:
            return worker.finish(shared, self.outcome.seconds)
        except CellFailed as failure:
            return {"limits": _why_not_measured(failure)}

    def _without_facts(self, failure: CellFailed, where: str = "") -> dict[str, Any]:
        """The last answer of a worker that is asked nothing more: it has ended, or still computes."""
        reason = _why_not_measured(failure, where)
        return {"facts": reason | _crowded(self.config), "limits": reason}

    def _end(self, answer: dict[str, Any]) -> None:
        """Write the record with the last answer, then end the worker: one that cannot be ended costs no record."""
        self.outcome.add_answer(answer)
        self._take_over()
        self._write()
        self.close()

    def fail(self, failure: CellFailed) -> None:
        """End the cell with a record of this failure, not written where a good one of an earlier run counts."""
        self.outcome.failure = failure
        self._take_over()
        if failure.status != "interrupted" or not earlier.good_records(self.results / self._path("*")):
            self._write()
        self.close()

    @contextmanager
    def _failure_recorded(self) -> Iterator[None]:
        """Record a failure, unless the cell is to be measured again alone."""
        try:
            yield
        except CellFailed as failure:
            if self.ending and failure.leaves_samples:
                self._end(self._without_facts(failure, " in the process that was to end it"))
            elif self.tried_alone(self, failure):
                self.close()
                self.opened, self.outcome = None, self.outcome.anew()
            else:
                self.fail(failure)

    def close(self) -> None:
        """End the worker; its environment and modules stay for the record."""
        self._take_over()
        if worker := self.worker:
            self.worker = None
            worker.close()

    def _take_over(self) -> None:
        """Keep the worker's environment and modules for the record, and its time for the next worker."""
        if worker := self.worker:
            self.outcome.environment = worker.environment or self.outcome.environment
            self.outcome.modules |= worker.modules
            self.left = worker.left

    def _write(self) -> None:
        description = self.outcome.environment or environment.describe(
            self.config["backend"]["name"],
            self.config["threads"],
            self.config["device"],
            self.config["launcher"]["allocator"],
        )
        modules = self.outcome.modules  # none of a cell that was refused before it began
        content = with_sources(description, modules | (sources_of_graph(self.config) if modules else {}))
        revision = {} if (known := commit()) is None else {"commit": known}
        name = environment_name(content)
        path, record = self._path(name), complete(self.outcome.record(name) | revision)
        if record["status"] != "ok" and earlier.outlasts(self.results, self.results / self._path("*"), record):
            self.record = record | {"message": f"{record['message']}; {earlier.STAYS}"}
        else:
            write_environment(self.results, content)
            earlier.set_aside(self.results / path, self.outcome.run)
            self.record = dict(read_record(write_record(self.results, path, record)))
        self.tell({"event": "done", "path": path, "status": self.record["status"], "record": self.record})

    def _path(self, environment: str) -> str:
        """The record's path below the results."""
        path = self.cell["path"].replace("{environment}", environment)
        return path.replace("{machine}", machine_slug()) if "{machine}" in path else path  # of a plan made elsewhere


def sources_of_graph(config: CellConfig) -> Modules:
    """The modules of ours that read a cell's graph and order its nodes, which the parent runs and no child loads."""
    from datasets.order import ORDERS  # not above: it imports numpy

    order = config["order"]
    orders = {order["name"]} | ({order["options"].get("inner", "rcm")} if order["name"] == "blockwise" else set())
    dataset = DATASETS.get(config["dataset"]["name"])
    targets = [
        *([] if dataset is None else [dataset.loader]),
        *(ORDERS[name] for name in sorted(orders) if name in ORDERS),
    ]
    names = [target.partition(":")[0] for target in targets]
    packages = [name.removesuffix(".loader") for name in names if name.endswith(".loader")]
    for package, folder in ((name, path_today(name)) for name in packages):
        if folder is not None:
            names += [f"{package}.{file.stem}" for file in sorted(folder.parent.glob("[a-z]*.py"))]
    paths = {name: path_today(name) for name in names}
    return {name: str(path) for name, path in paths.items() if path is not None}


def _crowded(config: CellConfig) -> dict[str, float]:
    """What threads, ranks or workers have to share as ``oversubscribed``, as facts would say it."""
    counts = asked_for(config["backend"])
    return oversubscribed(config["threads"], counts, usable_cores()) if config["device"] == "cpu" else {}


def _why_not_measured(failure: CellFailed, where: str = "") -> dict[str, str]:
    """Why time, memory or a signal left a cell without an answer beside its samples; raises every other failure."""
    if not failure.leaves_samples:
        raise failure
    return {"status": f"not measured, {failure.status}{where}: {failure.message}"}
