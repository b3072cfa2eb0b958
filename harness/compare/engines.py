"""Two engines compared inside the groups in which both were measured."""

from pathlib import Path

from harness.compare.factor import UNDECIDED, Factor, judge_with_doubt
from harness.compare.verdict import NOT_COMPARABLE, Verdict
from harness.report.comparisons import dataset_comparisons, of_scenarios
from harness.report.rows import Row
from harness.store.files import environment_of, find_records
from harness.store.left_out import LeftOut
from harness.store.record import RecordError
from harness.store.statistics import paired_ratio
from harness.usage import nearest


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
                verdicts.append(_verdict(name, by_label[a], by_label[b], threshold))
    if not verdicts:
        allowed = ", ".join(sorted(names)) or "none, there are no records"
        guesses = "".join(nearest(name, names) for name in (a, b) if name not in names)
        raise RecordError(f"no table holds both {a!r} and {b!r}: give two folders, or two of {allowed}{guesses}")
    return verdicts


def _verdict(name: str, a: Row, b: Row, threshold: float) -> Verdict:
    seconds = (a.time.median if a.time else None, b.time.median if b.time else None)
    if a.time is None or b.time is None:
        status = f"{a.label} {a.record['status']}, {b.label} {b.record['status']}"
        return Verdict(name, *seconds, None, NOT_COMPARABLE, status)
    ratio = paired_ratio(b.samples(), a.samples())
    if ratio is None:
        return Verdict(name, *seconds, None, NOT_COMPARABLE, "no group holds both: measure them in one sweep")
    factor = Factor(ratio.median, ratio.low, ratio.high, ratio.n)
    if ratio.kind == "spread":
        return Verdict(name, *seconds, factor, UNDECIDED, "one process of each: measure again with measure.processes=6")
    return Verdict(name, *seconds, factor, judge_with_doubt(factor, threshold))
