"""Sampling alone: targets and edges per second of an epoch's batches, beside the fastest peer's."""

from collections.abc import Sequence
from functools import partial

from harness.report import formats
from harness.report.comparisons import Comparison
from harness.report.content import NOTHING, Block, Cell, Table, Value, columns
from harness.report.papers.agl.inference import cpu
from harness.report.rows import Row
from harness.report.speedups import times_as_fast
from harness.report.suites import factors
from harness.report.suites.records import SuiteRecords, call_seconds, rate
from harness.store.statistics import Summary

HEADS = (
    *("engine", ("epoch", "ms"), "targets/s", "edges/s", "times the fastest peer's edges/s", "its targets/s"),
    *("edges of a target", "nodes of a target", "CPU s per s"),
)


def sampling(records: SuiteRecords) -> list[Block]:
    """One table per comparison of scenario ``sample``."""
    return records.tables("sample", _table)


def _table(comparison: Comparison) -> Table:
    return Table(columns(*HEADS), [_row(row, peer_of(row, comparison.rows)) for row in comparison.rows])


def peer_of(row: Row, rows: Sequence[Row]) -> Row | None:
    """The fastest peer of the same groups: ratios exist only inside a group."""
    return next((other for other in rows if other.ok and other.label == row.ratio_to), None)


def _row(row: Row, peer: Row | None) -> list[Cell]:
    targets = row.median("facts", "targets")
    if row.time is None or not targets:
        return [row.label, formats.status(row), *[NOTHING] * (len(HEADS) - 2)]
    counts, cpu_seconds = [row.median("facts", name) for name in ("edges", "nodes")], cpu(row)
    return [
        row.label,
        Value(call_seconds(row) * 1e3),
        *[Value(rate(row, name), "{:,.0f}") for name in ("targets", "edges")],
        *[factors.times(row, peer, "{:.2f}", partial(times, count=name)) for name in ("edges", "targets")],
        *[Value(count / targets if count else None, "{:.1f}") for count in counts],
        Value(cpu_seconds / call_seconds(row) if cpu_seconds else None, "{:.2f}"),
    ]


def times(row: Row, peer: Row, count: str) -> Summary | None:
    """Rate of a count (per second) as a multiple of a peer's, in the processes that both had in one pass."""
    ours, theirs, factor = _of_epoch(row, count), _of_epoch(peer, count), times_as_fast(row, peer)
    return factor.scaled(ours / theirs) if factor is not None and ours and theirs else None


def _of_epoch(row: Row, count: str) -> float | None:
    """A count of the batches that were drawn, scaled to the whole epoch as the seconds of a ratio are."""
    drawn = row.median("facts", count)
    return None if drawn is None else drawn * float(row.record.get("extrapolated") or 1.0)


def sampling_range(records: SuiteRecords) -> str:
    """Edges per second of our fastest row over those of the fastest peer, from least to most over the tables."""
    fastest = [(_fastest_of_ours(one.rows), one.rows) for _, one in records.comparisons("sample")]
    pairs = [factors.RowPair(row, peer_of(row, rows), rows) for row, rows in fastest if row is not None]
    return factors.range_of(pairs, "{:.2f}", factor=partial(times, count="edges"))


def _fastest_of_ours(rows: Sequence[Row]) -> Row | None:
    return next((row for row in rows if row.ours and row.ok), None)
