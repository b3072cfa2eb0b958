"""Collects the answers of one cell into its record."""

import statistics
from typing import Any

from harness.launcher.failure import CellFailed
from harness.launcher.interference import Interference
from harness.launcher.messages import MemoryPass, Modules, Opened, PlannedCell, TimedSample
from harness.launcher.process_sums import ProcessSums
from harness.store.versions import PROTOCOL, SCHEMA_VERSION

NOT_RECORDED = ("first_call", "warm_call", "batch_limit", "resident")


class Outcome:
    """The answers of one cell's processes, measured with others of its ``group`` in one ``run``."""

    def __init__(self, cell: PlannedCell, group: str, run: str, *, alone: bool = False) -> None:
        self.alone = alone
        self.cell, self.group, self.run = cell, group, run
        self.environment: dict[str, Any] | None = None
        self.modules: Modules = {}
        self.failure: CellFailed | None = None
        self._opened: dict[str, Any] = {}
        self._answers: dict[str, Any] = {}
        self._processes: list[ProcessSums] = []
        self._rounds: list[int] = []
        self._epochs: dict[str, Any] = {"phases": {}}
        names = ("seconds", "cpu_seconds", "loss", "disturbed", "calls", "process", "first")
        self._epochs |= {name: [] for name in names}
        self.resident = 0

    def anew(self) -> "Outcome":
        """The outcome of the same cell without any answer yet, to be measured alone."""
        return Outcome(self.cell, self.group, self.run, alone=True)

    def add_opened(self, answer: Opened) -> None:
        """Add the answer of a process that is ready; of several the first one counts."""
        self.resident = self.resident or answer.get("resident", 0)
        known = {key: value for key, value in answer.items() if value is not None and key not in NOT_RECORDED}
        known["prepare"] = self.cell["prepare"] | answer["prepare"]
        self._opened = self._opened or known

    def add_process(self, answer: Opened, tolerated_load: float) -> None:
        """Begin the samples of a fresh process; ``answer`` is the one with which it was ready."""
        if not self._processes:
            self._opened |= {"prepare": self.cell["prepare"] | answer["prepare"], "warmup": answer["warmup"]}
        self._processes.append(ProcessSums(answer, tolerated_load))

    def add_sample(self, sample: TimedSample, interference: Interference, position: int, counts: bool) -> None:
        """Add one sample, number ``position`` of the group; one that does not count goes to the disturbed."""
        self._processes[-1].add(sample, interference)
        if not counts:
            self._epochs["disturbed"].append(sample["seconds"])
            return
        phases = self._epochs["phases"]
        for phase in dict.fromkeys((*phases, *sample["phases"])):
            # A phase that a sample lacks took no time in it.
            seconds = phases.setdefault(phase, [0.0] * len(self._rounds))
            seconds.append(sample["phases"].get(phase, 0.0))
        self._rounds.append(position)
        for name in ("seconds", "cpu_seconds", "calls", "first"):
            self._epochs[name].append(sample[name])
        self._epochs["process"].append(len(self._processes) - 1)
        if sample["loss"] is not None:
            self._epochs["loss"].append(sample["loss"])

    @property
    def samples(self) -> int:
        """Samples that count so far."""
        return len(self._rounds)

    @property
    def seconds(self) -> float:
        """Time of a call: the median over the processes of the medians of their samples."""
        by_process: dict[int, list[float]] = {}
        for process, seconds in zip(self._epochs["process"], self._epochs["seconds"], strict=True):
            by_process.setdefault(process, []).append(seconds)
        return statistics.median(statistics.median(samples) for samples in by_process.values())

    def add_memory(self, memory: MemoryPass) -> None:
        """Add the memory pass."""
        growth = max(0, memory["peak"] - memory["resident"])
        derived = {"peak_minus_resident": growth, "working_set": memory["retained"] + growth}
        self._answers["memory"] = {"resident_after_prepare": self.resident, **memory, **derived}

    def add_answer(self, answer: dict[str, Any]) -> None:
        """Add record keys as they are: metrics, validation, facts, cache, limits."""
        self._answers |= {key: value for key, value in answer.items() if value is not None}

    def record(self, environment: str) -> dict[str, Any]:
        """Return the record; that of a failed cell has no measurements."""
        config = self.cell["config"]
        names = [name for name, on in config["ablations"].items() if on]
        status = "ok" if self.failure is None else self.failure.status
        record: dict[str, Any] = {"schema_version": SCHEMA_VERSION, "protocol": PROTOCOL, "status": status}
        record |= {"config": config, "ablations": sorted(names), "config_diff": self.cell["config_diff"]}
        record |= {"environment": environment, "group": self.group, "run": self.run}
        if self.alone:
            record["alone"] = True
        if "overrides" in self.cell:
            record["overrides"] = self.cell["overrides"]
        if self.failure is None:
            processes = [process.values() for process in self._processes]
            measured = {"rounds": self._rounds, "processes": processes, "epochs": self._epochs}
            return record | self._opened | measured | self._answers
        prepared = {key: self._opened[key] for key in ("dataset", "prepare", "parity") if key in self._opened}
        failure = {"message": self.failure.message, "parity": self.failure.parity, "log_tail": self.failure.log_tail}
        return record | prepared | {key: value for key, value in failure.items() if value}
