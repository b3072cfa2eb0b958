"""Verdicts on regressions: two results folders compared cell by cell, or two engines inside their groups."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness.report import formats
from harness.report.comparisons import dataset_comparisons, of_scenarios
from harness.report.content import NOTHING, Cell, Table, columns
from harness.report.rows import Row, rows
from harness.store.files import environment_of, environments_root, find_records
from harness.store.left_out import LeftOut
from harness.store.naming import flatten, label
from harness.store.record import Record, RecordError
from harness.store.statistics import Summary, independent_ratio, paired_ratio
from harness.usage import nearest

CheckedRow = tuple[Row, dict[str, Any]]


@dataclass
class Verdict:
    """The outcome for one cell: the factor is B's time divided by A's."""

    cell: str
    a: Summary | None
    b: Summary | None
    factor: Summary | None
    verdict: str
    reason: str = ""

    @property
    def regression(self) -> bool:
        """Whether B is worse."""
        return self.verdict in ("slower", "fails now")


def judge(factor: Summary, threshold: float) -> str:
    """Call a factor significant when its interval leaves 1 out and it exceeds the threshold, in either direction."""
    if factor.low > 1 and factor.median > threshold:
        return "slower"
    if factor.high < 1 and factor.median < 1 / threshold:
        return "faster"
    return "not significant"


def compare_folders(a: Path, b: Path, threshold: float, left_out: LeftOut | None = None) -> list[Verdict]:
    """Compare the cells that both folders hold, their newest environments; two single cells whatever their config.

    Raises RecordError when a folder has no records or no cell is in both.
    """
    older, newer = _cells(a, left_out), _cells(b, left_out)
    pairs = [(name, older[name], newer[name]) for name in sorted(set(older) & set(newer))]
    if not pairs and len(older) == len(newer) == 1:
        pairs = [(name, old, new) for (name, old), new in zip(older.items(), newer.values(), strict=True)]
    if not pairs:
        raise RecordError(f"{a} and {b} share no cell: compare folders of the same cells, measured at two times")
    return [_verdict(name, old, new, threshold) for name, old, new in pairs]


def compare_engines(results: Path, a: str, b: str, threshold: float, left_out: LeftOut | None = None) -> list[Verdict]:
    """Compare two engines, named as the tables name them, wherever they were measured in the same group.

    Raises RecordError with the names there are.
    """
    records = list(find_records(results, left_out))
    environments = {record["environment"]: environment_of(results, record["environment"]) for _, record in records}
    verdicts, names = [], set()
    for dataset in of_scenarios(dataset_comparisons(results, records, environments), lambda scenario: True):
        for comparison in dataset.comparisons:
            by_label = {row.label: row for row in comparison.rows}
            names |= set(by_label)
            if a in by_label and b in by_label:
                name = f"{dataset.name}: {comparison.title}"
                verdicts.append(_engines(name, by_label[a], by_label[b], threshold))
    if not verdicts:
        allowed = ", ".join(sorted(names)) or "none, there are no records"
        guesses = "".join(nearest(name, names) for name in (a, b) if name not in names)
        raise RecordError(f"no table holds both {a!r} and {b!r}: give two folders, or two of {allowed}{guesses}")
    return verdicts


def _cells(folder: Path, left_out: LeftOut | None = None) -> dict[str, CheckedRow]:
    """Rows of a folder by their place in the results folder, each with its checked environment."""
    root = environments_root(folder)
    records = list(find_records(folder, left_out))
    if not records:
        raise RecordError(f"{folder} holds no records: give a results folder, or a part of one")
    environments = {record["environment"]: environment_of(root, record["environment"]) for _, record in records}
    return {_place(row, root): (row, _checked(row.record, environments)) for row in rows(records, environments)}


def _place(row: Row, root: Path) -> str:
    """Folder of a cell, relative to the results folder, and the interpreter where another one was named."""
    folder = row.cells[0][0].parent.resolve().relative_to(root.resolve()).as_posix()
    return f"{folder} {row.record['config'].get('launcher', {}).get('python') or ''}".strip()


def _checked(record: Record, environments: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """The values that must be equal. Sources may differ: ``compare`` exists to compare versions of the code."""
    environment = environments[record["environment"]]
    values = flatten(environment.get("checked", environment)) | {"protocol": record["protocol"]}
    values |= {"data": record.get("dataset", {}).get("sha256", "")}
    return {key: value for key, value in values.items() if key != "sources"}


def _verdict(name: str, old: CheckedRow, new: CheckedRow, threshold: float) -> Verdict:
    (a, checked_a), (b, checked_b) = old, new
    if a.time is None or b.time is None:
        return _by_status(name, a, b)
    keys = sorted(set(checked_a) | set(checked_b))
    differing = [key for key in keys if checked_a.get(key) != checked_b.get(key)]
    if differing:
        reason = "; ".join(f"{key} {checked_a.get(key)} against {checked_b.get(key)}" for key in differing)
        return Verdict(_title(a, name), a.time, b.time, None, "not comparable", reason)
    factor = independent_ratio(list(b.samples().values()), list(a.samples().values()))
    return Verdict(_title(a, name), a.time, b.time, factor, judge(factor, threshold))


def _engines(name: str, a: Row, b: Row, threshold: float) -> Verdict:
    if a.time is None or b.time is None:
        status = f"{a.label} {a.record['status']}, {b.label} {b.record['status']}"
        return Verdict(name, a.time, b.time, None, "not comparable", status)
    factor = paired_ratio(b.samples(), a.samples())
    if factor is None:
        return Verdict(name, a.time, b.time, None, "not comparable", "no group holds both: measure them in one sweep")
    return Verdict(name, a.time, b.time, factor, judge(factor, threshold))


def _by_status(name: str, a: Row, b: Row) -> Verdict:
    """Judge a cell of which one side has no time: it is worse if it was ok before and fails now."""
    status = f"{a.record['status']}, then {b.record['status']}"
    verdict = "fails now" if a.time else "works now" if b.time else "not comparable"
    return Verdict(_title(a, name), a.time, b.time, None, verdict, status)


def _title(row: Row, place: str) -> str:
    config = row.record["config"]
    names = [config["dataset"]["name"], config["model"]["name"], label(row.record), config["scenario"]["name"]]
    return f"{' '.join(names)} ({place.split('/')[-1]})"


def table(verdicts: Sequence[Verdict]) -> Table:
    """One row per cell: both times in seconds, the factor with its interval, n of the smaller side, the verdict."""
    return Table(columns("cell", ("A", "s"), ("B", "s"), "B / A", "n", "verdict"), [_row(one) for one in verdicts])


def _row(verdict: Verdict) -> list[Cell]:
    times = [formats.measured(time) if time else NOTHING for time in (verdict.a, verdict.b)]
    factor = formats.measured(verdict.factor) if verdict.factor else NOTHING
    n = str(verdict.factor.n) if verdict.factor else NOTHING
    return [verdict.cell, *times, factor, n, verdict.verdict + (f": {verdict.reason}" if verdict.reason else "")]
