"""Two results folders compared: each cell by its ratio to what both folders measured beside it."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import log
from pathlib import Path
from typing import Any

import numpy as np

from harness.compare.between_folders import IN_TURNS, Change, change_of_seeds, judge_together
from harness.compare.factor import FASTER, NOT_SIGNIFICANT, SLOWER, UNDECIDED, Factor
from harness.compare.verdict import (
    FAILS_NOW,
    NOT_COMPARABLE,
    NOT_OF_THE_CODE,
    TIMED_OTHERWISE,
    Verdict,
    differing,
    verdict_by_status,
)
from harness.report.rows import Row, rows
from harness.store.files import environment_of, find_records, root_and_part
from harness.store.left_out import LeftOut
from harness.store.naming import flatten, label
from harness.store.record import Record, RecordError, StoredRecord
from harness.store.samples import by_process, seconds
from harness.store.statistics import median

RunKey = tuple[str, str]  # a group and the id of one run of it
NAMED = 5  # cells of one folder alone that are named


@dataclass
class MeasuredCell:
    """A cell of a folder with its checked environment, and the digest of the code that it ran."""

    row: Row
    checked: dict[str, Any]
    code: Any

    def median(self, seeds: Collection[int] | None = None) -> float | None:
        """Median seconds of the timed call over the records of some seeds, ``None`` without a good one."""
        records = [record for record in self.row.ok if seeds is None or record["config"]["seed"] in seeds]
        return median([median(seconds(record)) for record in records]) if records else None

    @cached_property
    def seeds(self) -> set[int]:
        """The seeds of the good records."""
        return {record["config"]["seed"] for record in self.row.ok}

    @property
    def seeds_in_turns(self) -> set[int]:
        """The seeds of the good records that were not measured alone."""
        return {record["config"]["seed"] for record in self.runs.values()}

    @cached_property
    def runs(self) -> dict[RunKey, Record]:
        """The good records by the run of the group that wrote them, without those measured alone after the others."""
        return {(record["group"], record.get("run", "")): record for record in self.row.ok if not record.get("alone")}


class MeasuredFolder:
    """The cells of a results folder by their place in it; those below ``folder``, a part of it, are compared."""

    def __init__(self, folder: Path, left_out: LeftOut | None = None) -> None:
        root, part = root_and_part(folder)
        records = list(find_records(root, left_out))
        environments = {record["environment"]: environment_of(root, record["environment"]) for _, record in records}
        gathered: dict[str, list[StoredRecord]] = {}
        for path, record in records:
            gathered.setdefault(_place(path, record, root), []).append((path, record))
        self.cells = {place: _measured(stored, environments) for place, stored in gathered.items()}
        self.compared = [
            place for place, stored in gathered.items() if stored[0][0].relative_to(root).is_relative_to(part)
        ]
        if not self.compared:
            raise RecordError(f"{folder} holds no records: give a results folder, or a part of one")
        self.places: dict[RunKey, set[str]] = {}
        for place, cell in self.cells.items():
            for run in cell.runs:
                self.places.setdefault(run, set()).add(place)

    def beside(self, place: str, seeds: Collection[int]) -> set[str]:
        """Places of the cells that every run of some seeds of a cell measured beside it."""
        runs = self.cells[place].runs.items()
        together = [self.places[run] for run, record in runs if record["config"]["seed"] in seeds]
        return set.intersection(*together) - {place} if together else set()

    def logarithms(self, place: str, beside: Sequence[str], seed: int) -> list[float]:
        """Logarithm of the time over the geometric mean of the cells beside it, for each process of a seed."""
        values = []
        for run, record in self.cells[place].runs.items():
            if record["config"]["seed"] != seed:
                continue
            others = [process_medians(self.cells[other].runs[run]) for other in beside]
            for process, value in process_medians(record).items():
                references = [medians.get(process, median(list(medians.values()))) for medians in others]
                values.append(log(value) - float(np.mean(np.log(references))))
        return values


@dataclass
class ComparedCell:
    """A cell of both folders, and the places of the cells beside it that it is measured against."""

    name: str
    places: tuple[str, str]
    medians: tuple[float, float]
    beside: list[str]
    seeds: list[int]  # that both folders measured in turns: another seed may be other work
    unchanged: bool  # whether the code of the cells beside it is the same in both folders


def compare_folders(
    a: Path,
    b: Path,
    threshold: float,
    left_out: LeftOut | None = None,
    on_note: Callable[[str], None] = lambda sentence: None,
) -> list[Verdict]:
    """Compare the cells that both folders hold, their newest environments; two single cells whatever their config.

    Cells beside them count wherever they lie in the results folder of which ``a`` or ``b`` is a part. ``on_note`` gets
    a sentence on the cells of one folder alone. Raises RecordError when a folder has no records or no cell is in both.
    """
    older, newer = MeasuredFolder(a, left_out), MeasuredFolder(b, left_out)
    pairs = [(place, place) for place in sorted({*older.compared} & {*newer.compared})]
    if not pairs and len(older.compared) == len(newer.compared) == 1:
        pairs = [(older.compared[0], newer.compared[0])]
    if not pairs:
        raise RecordError(f"{a} and {b} share no cell: compare folders of the same cells, measured at two times")
    for side, folder, places in zip("AB", (older, newer), zip(*pairs, strict=True), strict=True):
        if alone := [place for place in folder.compared if place not in places]:
            on_note(_of_one_folder(side, [_title(folder.cells[place].row, place) for place in sorted(alone)]))
    outcomes = [_compared(older, newer, *places) for places in pairs]
    cells = [outcome for outcome in outcomes if isinstance(outcome, ComparedCell)]
    changes = [_change(older, newer, cell) for cell in cells]
    judgements = zip(cells, judge_together(changes, threshold), strict=True)
    judged = iter([_verdict(cell, *judgement, threshold) for cell, judgement in judgements])
    return [next(judged) if isinstance(outcome, ComparedCell) else outcome for outcome in outcomes]


def _of_one_folder(side: str, titles: Sequence[str]) -> str:
    """Say how many cells only folder ``side`` has, and which."""
    more = [f"{len(titles) - NAMED} more"] if len(titles) > NAMED else []
    count = "1 cell" if len(titles) == 1 else f"{len(titles)} cells"
    return f"not compared, as only {side} has {count}: {', '.join([*titles[:NAMED], *more])}"


def _change(older: MeasuredFolder, newer: MeasuredFolder, cell: ComparedCell) -> Change:
    """The change of a cell over the processes of each seed."""
    sides = tuple(zip((older, newer), cell.places, strict=True))
    a, b = ([folder.logarithms(place, cell.beside, seed) for seed in cell.seeds] for folder, place in sides)
    return change_of_seeds(list(zip(a, b, strict=True)))


def _place(path: Path, record: Record, root: Path) -> str:
    """Folder of a cell, relative to the results folder, and the interpreter where another one was named."""
    folder = path.parent.relative_to(root).as_posix()
    return f"{folder} {record['config'].get('launcher', {}).get('python') or ''}".strip()


def _measured(stored: Sequence[StoredRecord], environments: Mapping[str, Mapping[str, Any]]) -> MeasuredCell:
    """Separate the values that must be equal from the digest of the sources, which may differ between versions."""
    (row,) = rows(stored, environments)
    environment = environments[row.record["environment"]]
    values = flatten(environment.get("checked", environment)) | {"protocol": row.record["protocol"]}
    values |= {"data": row.record.get("dataset", {}).get("sha256", "")}
    code = values.pop("sources", None)
    return MeasuredCell(row, values, code)


def _compared(older: MeasuredFolder, newer: MeasuredFolder, place_a: str, place_b: str) -> ComparedCell | Verdict:
    """Find what a cell is measured against; the verdict itself where nothing is."""
    a, b = older.cells[place_a], newer.cells[place_b]
    name, medians = _title(a.row, place_a), (a.median(), b.median())
    if differing := _differing(a, b):
        return Verdict(name, *medians, None, NOT_COMPARABLE, differing)
    if None in medians:
        statuses = (_status(a.row), _status(b.row))
        return verdict_by_status(name, *medians, statuses)
    if failed := _failed_seeds(a, b):
        return Verdict(name, *medians, None, FAILS_NOW, failed)
    if not a.seeds & b.seeds:
        reason = f"seeds {_listed(a.seeds)} and {_listed(b.seeds)} are other work: measure one of them in both"
        return Verdict(name, *medians, None, NOT_COMPARABLE, reason)
    seeds = sorted(a.seeds_in_turns & b.seeds_in_turns)
    both = sorted(older.beside(place_a, seeds) & newer.beside(place_b, seeds))
    beside = [place for place in both if not _differing(older.cells[place], newer.cells[place])]
    before, after = a.median(seeds), b.median(seeds)
    if not beside or before is None or after is None:
        overrides = " ".join(b.row.record.get("overrides", [])) or "OVERRIDES"
        reason = f"both measured nothing beside it in its group: measure them in turns, {IN_TURNS} {overrides}"
        return Verdict(name, *medians, None, NOT_COMPARABLE, reason)
    if a.row.timed_otherwise(b.row, seeds):
        return Verdict(name, *medians, None, NOT_COMPARABLE, TIMED_OTHERWISE)
    unchanged = [place for place in beside if _same_code(older.cells[place], newer.cells[place])]
    return ComparedCell(name, (place_a, place_b), (before, after), unchanged or beside, seeds, bool(unchanged))


def _status(row: Row) -> str:
    """The status of a row's seeds: a failure that may be the code's counts before one that says nothing about it."""
    statuses = [record["status"] for _, record in row.cells]
    of_code = [status for status in statuses if status not in NOT_OF_THE_CODE]
    return "ok" if "ok" in statuses else next(iter(of_code or statuses))


def _listed(seeds: Collection[int]) -> str:
    return ", ".join(f"{seed}" for seed in sorted(seeds))


def _failed_seeds(a: MeasuredCell, b: MeasuredCell) -> str:
    """Name the seeds that were good in one folder and failed in the other, for a reason that may be the code's."""
    after = {record["config"]["seed"]: record["status"] for _, record in b.row.cells}
    bad = {seed: status for seed, status in sorted(after.items()) if status not in ("ok", *NOT_OF_THE_CODE)}
    return ", ".join(f"seed {seed}: ok, then {status}" for seed, status in bad.items() if seed in a.seeds)


def _differing(a: MeasuredCell, b: MeasuredCell) -> str:
    """Name the values that must be equal and are not; data count where both cells came to read them."""
    unread = "" in (a.checked["data"], b.checked["data"])
    first, second = (cell.checked | ({"data": ""} if unread else {}) for cell in (a, b))
    return differing(first, second)


def _same_code(a: MeasuredCell, b: MeasuredCell) -> bool:
    return a.code is not None and a.code == b.code


def process_medians(record: Record) -> dict[int, float]:
    """Median seconds of the samples of each fresh process; records without their numbers are of one process."""
    return {number: median(values) for number, values in by_process(record, seconds(record)).items()}


def _verdict(cell: ComparedCell, factor: Factor, verdict: str, reason: str, threshold: float) -> Verdict:
    """Turn a judgement into the cell's verdict; beside code that changed as well, its own seconds must agree."""
    reasons = [reason] if reason else []
    if not cell.unchanged:
        reasons.append("beside cells whose code changed as well")
        own = cell.medians[1] / cell.medians[0]
        of_its_own = SLOWER if own > threshold else FASTER if own < 1 / threshold else NOT_SIGNIFICANT
        if verdict not in (UNDECIDED, of_its_own):
            verdict = UNDECIDED
            reasons.append(f"its own seconds changed by a factor of {own:.3g}: {IN_TURNS} tells")
    return Verdict(cell.name, *cell.medians, factor, verdict, ", ".join(reasons))


def _title(row: Row, place: str) -> str:
    config = row.record["config"]
    names = [config["dataset"]["name"], config["model"]["name"], label(row.record), config["scenario"]["name"]]
    return f"{' '.join(names)} ({place.split('/')[-1]})"
