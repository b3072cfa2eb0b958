"""What is known of one cell so far, and the record that it makes."""

from typing import Any

from harness.launcher.failure import CellFailed
from harness.store.record import PROTOCOL, SCHEMA_VERSION


class Outcome:
    """Collects the answers of one cell's processes."""

    def __init__(self, cell: dict[str, Any], group: str) -> None:
        self.cell, self.group = cell, group
        self.environment: dict[str, Any] | None = None
        self.failure: CellFailed | None = None
        self.written = False
        self._opened: dict[str, Any] = {}
        self._rest: dict[str, Any] = {}
        self._rounds: list[int] = []
        self._epochs: dict[str, Any] = {"phases": {}}
        self._epochs |= {name: [] for name in ("seconds", "cpu_seconds", "loss", "disturbed", "calls")}
        self.resident = 0

    def opened(self, answer: dict[str, Any]) -> None:
        """Take what a process said when it was ready; the first one speaks for all."""
        self.resident = self.resident or answer.pop("resident", 0)
        answer["prepare"] = self.cell["prepare"] | answer["prepare"]
        self._opened = self._opened or {key: value for key, value in answer.items() if value is not None}

    def sampled(self, sample: dict[str, Any], position: int, counts: bool) -> None:
        """Add one sample, dealt as token ``position`` of the group."""
        if not counts:
            self._epochs["disturbed"].append(sample["seconds"])
            return
        phases = self._epochs["phases"]
        for phase in dict.fromkeys((*phases, *sample["phases"])):
            # A phase that a sample lacks took no time in it.
            held = phases.setdefault(phase, [0.0] * len(self._rounds))
            held.append(sample["phases"].get(phase, 0.0))
        self._rounds.append(position)
        self._epochs["seconds"].append(sample["seconds"])
        self._epochs["cpu_seconds"].append(sample["cpu_seconds"])
        self._epochs["calls"].append(sample["calls"])
        if sample["loss"] is not None:
            self._epochs["loss"].append(sample["loss"])

    def remembered(self, memory: dict[str, Any]) -> None:
        """Add the memory pass, bytes: what is resident just before the watched call, and its peak."""
        above = max(0, memory["peak"] - memory["resident"])
        self._rest["memory"] = {"resident_after_prepare": self.resident, **memory, "peak_minus_resident": above}

    def concluded(self, answer: dict[str, Any]) -> None:
        """Add record keys as they are: metrics, validation, facts, cache."""
        self._rest |= {key: value for key, value in answer.items() if value is not None}

    def record(self, environment: str) -> dict[str, Any]:
        """Return the record; what was measured is left out when the cell failed."""
        config = self.cell["config"]
        names = [name for name, named in config.get("ablations", {}).items() if named]
        status = "ok" if self.failure is None else self.failure.status
        record = {"schema_version": SCHEMA_VERSION, "protocol": PROTOCOL, "status": status, "config": config}
        record |= {"ablations": sorted(names), "config_diff": self.cell.get("config_diff") or {}}
        record |= {"environment": environment, "group": self.group}
        if "overrides" in self.cell:
            record["overrides"] = self.cell["overrides"]
        if self.failure is None:
            return record | self._opened | {"rounds": self._rounds, "epochs": self._epochs} | self._rest
        kept = {key: self._opened[key] for key in ("dataset", "prepare", "parity") if key in self._opened}
        failed = {"message": self.failure.message, "parity": self.failure.parity, "log_tail": self.failure.log_tail}
        return record | kept | {key: value for key, value in failed.items() if value}
