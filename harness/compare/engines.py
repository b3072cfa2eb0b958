"""Two engines compared inside the groups in which both were measured."""

from collections.abc import Iterator, Sequence
from pathlib import Path

from harness.compare.between_folders import change_of_pairs, judge_together
from harness.compare.factor import Factor
from harness.compare.verdict import NOT_COMPARABLE, Verdict
from harness.report.comparisons import dataset_comparisons, of_scenarios
from harness.report.rows import Row
from harness.store.files import environment_of, find_records
from harness.store.left_out import LeftOut
from harness.store.record import RecordError
from harness.store.statistics import ratios_of_pairs
from harness.usage import nearest

MORE_PROCESSES = "measure again with a larger measure.processes"
Judgement = tuple[Factor | None, str, str]


def compare_engines(results: Path, a: str, b: str, threshold: float, left_out: LeftOut | None = None) -> list[Verdict]:
    """Compare two engines, named as the tables name them, wherever they were measured in the same group.

    Raises RecordError with the names there are.
    """
    records = list(find_records(results, left_out))
    environments = {record["environment"]: environment_of(results, record["environment"]) for _, record in records}
    tables, names = [], set()
    for dataset in of_scenarios(dataset_comparisons(results, records, environments), lambda scenario: True):
        for comparison in dataset.comparisons:
            by_label = {row.label: row for row in comparison.rows}
            names |= set(by_label)
            if a in by_label and b in by_label:
                tables.append((f"{dataset.name}: {comparison.title}", by_label[a], by_label[b]))
    if not tables:
        allowed = ", ".join(sorted(names)) or "none, there are no records"
        guesses = "".join(nearest(name, names) for name in (a, b) if name not in names)
        raise RecordError(f"no table holds both {a!r} and {b!r}: give two folders, or two of {allowed}{guesses}")
    return _verdicts(tables, threshold)


def _verdicts(tables: Sequence[tuple[str, Row, Row]], threshold: float) -> list[Verdict]:
    """Judge all tables together; those in which nothing was measured in pairs are not comparable."""
    pairs = [ratios_of_pairs(b.paired_samples(), a.paired_samples()) for _, a, b in tables]
    changes = [change_of_pairs(ratios) for ratios in pairs if ratios]
    judgements: Iterator[Judgement] = iter(judge_together(changes, threshold, MORE_PROCESSES))
    verdicts = []
    for (name, a, b), ratios in zip(tables, pairs, strict=True):
        factor, verdict, reason = next(judgements) if ratios else (None, NOT_COMPARABLE, _why_no_pair(a, b))
        verdicts.append(Verdict(name, *_medians(a, b), factor, verdict, reason))
    return verdicts


def _medians(a: Row, b: Row) -> tuple[float | None, float | None]:
    return a.time.median if a.time else None, b.time.median if b.time else None


def _why_no_pair(a: Row, b: Row) -> str:
    if a.time is None or b.time is None:
        return f"{a.label} {a.record['status']}, {b.label} {b.record['status']}"
    if alone := [row.label for row in (a, b) if row.alone]:
        return f"measured alone, for lack of memory beside the others: {', '.join(alone)}"
    return "no group holds both: measure them in one sweep"
