"""How many times as fast a call is in its best order as in the given and in a random one."""

from collections.abc import Sequence

from harness.report.content import NOTHING
from harness.report.rows import Row
from harness.report.suites.records import SuiteRecords, ablations, seconds


def gain(records: SuiteRecords) -> str:
    """The range over data sets and widths, for ours."""
    return _range(records, ours=True)


def gain_of_peers(records: SuiteRecords) -> str:
    """The same for the fastest peer of each order."""
    return _range(records, ours=False)


def _range(records: SuiteRecords, ours: bool) -> str:
    tables = [_best_by_order(comparison.rows, ours) for _, comparison in records.comparisons()]
    parts = []
    for base in ("none", "random"):
        factors = [times[base] / min(times.values()) for times in tables if base in times and len(times) > 1]
        if factors:
            parts.append(f"{min(factors):.2g} to {max(factors):.2g} times (order {base})")
    return ", ".join(parts) or NOTHING


def _best_by_order(rows: Sequence[Row], ours: bool) -> dict[str, float]:
    """Seconds of the fastest row in each order."""
    best: dict[str, float] = {}
    for row in rows:
        if row.time is not None and not ablations(row) and (row.ours if ours else row.peer):
            order = row.record["config"].get("order", {}).get("name", "none")
            best[order] = min(seconds(row), best.get(order, float("inf")))
    return best
