"""The plan of a command: its cells in groups, and which groups are finished."""

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass, field, fields, is_dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from backends.settings import executed_values, setting_of
from datasets.hashes import digest
from datasets.paths import default_cache
from datasets.prepare import known_sha256
from datasets.registry import files_sha256
from harness.launcher.allocators import ALLOCATORS
from harness.launcher.earlier import is_of_todays_code
from harness.measure.sources import forget_digests
from harness.planning.cells import Cell, resolve_cell
from harness.planning.compose import Composition
from harness.planning.config import load
from harness.planning.identity import cell_folder
from harness.planning.interpreter import checked_environment
from harness.planning.schema import DatasetConfig, RunConfig
from harness.planning.suite import Suite, expand
from harness.store.files import (
    by_age,
    environment_of,
    group_record_paths,
    is_superseded,
    machine_slug,
    readable_records,
)
from harness.store.left_out import LeftOut
from harness.store.naming import dataset_name, flatten
from harness.store.record import Record, StoredRecord
from harness.store.shortened import LIMITS, is_shortened, lacks_a_pass
from harness.usage import UsageError

REFUSED = ("unsupported", "not_installed")
FINAL = ("ok", *REFUSED)
CLOCKS = 2.0  # seconds that the time of a file may be after that of its record, which is in whole seconds
# Settings that no hash of a cell holds, and that decide what it does.
UNHASHED = ("scenario.save_state", "launcher.memory_limit_gib", "measure.deadline_seconds", "measure.group_seconds")
Environment = Callable[[RunConfig], dict[str, Any]]


@dataclass
class Group:
    """Cells that are measured in turns and compared; ``records`` has one for each, ``None`` where there is none.

    Only records that were measured in this very group count.
    """

    id: str
    key: dict[str, Any]
    cells: list[Cell]
    records: list[StoredRecord | None] = field(default_factory=list)

    def state(self, retry: str) -> tuple[bool, str]:
        """Say whether the group is to be run under ``retry``, and why."""
        statuses = [None if stored is None else stored[1]["status"] for stored in self.records]
        if retry == "all":
            return True, "retry=all"
        if None in statuses:
            return True, "not measured here" if not any(statuses) else f"{statuses.count(None)} cells are missing"
        failed = ", ".join(sorted({str(status) for status in statuses if status not in FINAL}))
        if failed and retry == "failed":
            return True, f"retry=failed, and a cell ended as {failed}"
        if retry == "failed" and any(map(self._may_take_longer, self.cells, self.records)):
            return True, "retry=failed, and a cell that lacked time may take longer now"
        if retry == "failed" and any(map(self._lacks_parameters, self.cells, self.records)):
            return True, "retry=failed, and a cell did not write the file of scenario.save_state, or it is gone"
        return False, f"every cell has a record of this group{f', some {failed}' if failed else ''}"

    @staticmethod
    def _may_take_longer(cell: Cell, stored: StoredRecord | None) -> bool:
        """Whether a cell did not have time for all of its processes and passes, and may take longer now."""
        if stored is None or not (is_shortened(stored[1]) or lacks_a_pass(stored[1])):
            return False
        earlier = stored[1]["config"]["measure"]
        return any(getattr(cell.config.measure, name) > float(earlier[name]) for name in LIMITS if name in earlier)

    @staticmethod
    def _lacks_parameters(cell: Cell, stored: StoredRecord | None) -> bool:
        """Whether the file of parameters that is asked for now is not the one that a good cell wrote, or is gone.

        One that was changed after the cell's record is another cell's.
        """
        path = cell.config.scenario.saved_state
        if path is None or stored is None or stored[1]["status"] != "ok":
            return False
        written, file = stored[1]["config"]["scenario"].get("save_state"), Path(path)
        if written is None or Path(written).absolute() != file.absolute() or not file.exists():
            return True
        recorded = datetime.fromisoformat(stored[1]["written"]).timestamp()
        return "metrics" not in stored[1] or file.stat().st_mtime > recorded + CLOCKS

    def stored(self) -> list[StoredRecord]:
        """Return the records that exist, with their paths."""
        return [stored for stored in self.records if stored is not None]


@dataclass
class Plan:
    """All groups of a command line; ``config`` is one of its configurations, read for the keys that all share.

    A damaged record does not count: it is named once and kept in ``left_out``.
    """

    config: RunConfig
    groups: list[Group]
    machine: str
    left_out: LeftOut = field(default_factory=LeftOut)

    @property
    def results(self) -> Path:
        """Folder of the records."""
        return Path(self.config.results)

    def open_groups(self) -> list[Group]:
        """Return the groups that are to be run."""
        return [group for group in self.groups if group.state(self.config.retry)[0]]

    def find_records(self) -> None:
        """Look up the records of each group."""
        forget_digests()
        for group in self.groups:
            group.records = find_group_records(group, self.results, self.machine, self.left_out)


@dataclass
class PlannedRun:
    """A configuration with the overrides and the suite it came from."""

    config: RunConfig
    overrides: list[str] = field(default_factory=list)
    suite: Suite | None = None


def make_plan(compositions: Iterable[Composition], environment: Environment = checked_environment) -> Plan:
    """Expand, load and group compositions, and look up the records that exist already; raises UsageError."""
    runs = configurations(compositions)
    plan = Plan(runs[0].config, form_groups(runs, environment), machine_slug())
    _check_saved_states(plan.groups)
    plan.find_records()
    return plan


def configurations(compositions: Iterable[Composition]) -> list[PlannedRun]:
    """Expand suites and load every composition strictly; raises UsageError, also when nothing is left to run."""
    runs = [
        PlannedRun(load(composition.values), composition.overrides, suite)
        for unexpanded in compositions
        for composition, suite in expand(unexpanded)
    ]
    if not runs:
        raise UsageError("nothing to run: the suite's tier has no cells")
    for name in ("results", "dry_run", "wait", "retry"):
        values = sorted({str(getattr(run.config, name)) for run in runs})
        if len(values) > 1:
            raise UsageError(f"{name} is {', '.join(values)} within one sweep: give one value")
    return runs


def form_groups(runs: Iterable[PlannedRun], environment: Environment) -> list[Group]:
    """Resolve cells and gather those with equal keys; equal cells of a group become one with all their labels."""
    gathered: dict[str, tuple[dict[str, Any], list[Cell]]] = {}
    for run in runs:
        key = group_key(run.config, run.suite.vary if run.suite else [])
        _, cells = gathered.setdefault(digest(key), (key, []))
        _add_cell(cells, resolve_cell(run.config, run.overrides))
    return [Group(group_id(key, cells, environment), key, cells) for key, cells in gathered.values()]


def _check_saved_states(groups: Iterable[Group]) -> None:
    """Raise UsageError where several cells would write their parameters to one file."""
    cells = [cell for group in groups for cell in group.cells if cell.status is None or cell.may_run_elsewhere]
    states = [cell.config.scenario.saved_state for cell in cells]
    for path, count in Counter(Path(state).absolute() for state in states if state is not None).items():
        if count > 1:
            example = "scenario.save_state='best.${backend.name}.${seed}.npz'"
            raise UsageError(
                f"scenario.save_state={path} would be written by {count} cells: name it by them, {example}"
            )


def group_key(config: RunConfig, vary: Iterable[str]) -> dict[str, Any]:
    """Return what all cells of a group share; dotted names in ``vary``, and all below them, may differ."""
    free = tuple(vary)
    key: dict[str, Any] = {}
    settings: dict[str, Any] = {}
    for entry in fields(config):
        value = getattr(config, entry.name)
        if not setting_of(entry).shared:
            continue
        if is_dataclass(value):
            settings |= flatten({entry.name: executed_values(value)})
            value = dataset_name(asdict(config.dataset)) if entry.name == "dataset" else getattr(value, "name", None)
        if value is not None and entry.name not in free:
            key[entry.name] = value
    return key | {"settings": digest({name: value for name, value in settings.items() if not _below(name, free)})}


def group_id(key: dict[str, Any], cells: Iterable[Cell], environment: Environment) -> str:
    """Hash a group's key, cells and checked environments: the same work on the same machine has the same id."""
    identities = sorted(
        (cell.hash, cell.config.launcher.python or "", digest(environment(cell.config))) for cell in cells
    )
    return digest([key, identities])


def find_group_records(
    group: Group, results: Path, machine: str, left_out: LeftOut | None = None
) -> list[StoredRecord | None]:
    """Return the record that each cell of a group has *of that group*, measured on today's data with today's code.

    All belong to one run of the group: the run with records of the most cells, among equal ones the newest. Damaged
    records are added to ``left_out`` and count as not measured.
    """
    left_out = LeftOut() if left_out is None else left_out
    runs = [_records_by_run(cell, group.id, results, machine, left_out) for cell in group.cells]
    names = {name for records in runs for name in records}

    def rank(name: str) -> tuple[int, int, tuple[bool, str, str]]:
        stored = [by_run[name] for by_run in runs if name in by_run]
        current = sum(not is_superseded(path) for path, _ in stored)
        return len(stored), current, max(map(by_age, stored))

    best = max(names, key=rank, default="")
    return [by_run.get(best) for by_run in runs]


def _records_by_run(cell: Cell, group: str, results: Path, machine: str, left_out: LeftOut) -> dict[str, StoredRecord]:
    """Newest record of a cell by run, among those of this group, of today's data and of today's code."""
    folder = results / cell_folder(cell.config, cell.hash, machine)
    paths = group_record_paths(folder, cell.config.seed, group)
    known = _todays_sha256(cell.config.dataset) if paths else None
    valid = [
        (path, record)
        for path, record in readable_records(paths, left_out)
        if known in (None, record.get("dataset", {}).get("sha256", known))
        and is_of_todays_code(results, record["environment"])
        and _refusal_holds(cell, record, results)
    ]
    return {record.get("run", ""): (path, record) for path, record in sorted(valid, key=by_age)}


def _todays_sha256(dataset: DatasetConfig) -> str | None:
    """The hash of a data set that was read before, else that of its files; ``None`` where only reading would tell."""
    cache = default_cache()
    return known_sha256(dataset, cache) or files_sha256(dataset.name, dataset.options, cache)


def _refusal_holds(cell: Cell, record: Record, results: Path) -> bool:
    """Whether a cell that was refused before its process began would be refused today; True of all other records."""
    if record["status"] not in REFUSED or "log_tail" in record:
        return True
    if environment_of(results, record["environment"])["modules"]:
        return True
    # Only the preparation of a graph tells whether it can have an order, and that takes too long for a plan.
    if record["status"] == "unsupported" and cell.config.order.name != "none":
        return True
    refusal = ALLOCATORS[cell.config.launcher.allocator].refusal()
    return record["status"] == (cell.status or (refusal[0] if refusal else None))


def _below(name: str, prefixes: tuple[str, ...]) -> bool:
    return any(name == prefix or name.startswith(f"{prefix}.") for prefix in prefixes)


def _add_cell(cells: list[Cell], cell: Cell) -> None:
    """Append a cell, or add its labels to those of an equal one; raises UsageError for two that differ in a limit."""
    for other in cells:
        if (other.hash, other.config.launcher.python) == (cell.hash, cell.config.launcher.python):
            first, second = (flatten(asdict(one.config)) for one in (other, cell))
            for key in UNHASHED:
                if first[key] != second[key]:
                    both = f"{key}={first[key]} and {second[key]}"
                    raise UsageError(f"{both} are asked for of one cell, which is measured once: give one value")
            other.labels += [label for label in cell.labels if label not in other.labels]
            return
    cells.append(cell)
