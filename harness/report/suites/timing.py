"""Times of a suite: every cell, and ours at its best beside the fastest peer."""

from collections.abc import Sequence

from harness.report import formats
from harness.report.comparisons import Comparison
from harness.report.content import NOTHING, Block, Cell, Table, Value, columns
from harness.report.rows import Row
from harness.report.speedups import contest, times_as_fast
from harness.report.suites.factors import RowPair, is_headline, range_of, times
from harness.report.suites.records import (
    SuiteRecords,
    ablations,
    at_its_best,
    fastest_peer,
    label_with_form,
    measured_peers,
    name_of,
    preparation_seconds,
    seconds,
)
from harness.store.statistics import geometric_mean

CELLS = ("n", "CPU s per s", "ratio to fastest peer", "times as fast as base", "peak memory", ("once before", "s"))


def cells(records: SuiteRecords) -> list[Block]:
    """One table per comparison: each engine and form, its ratio to the fastest peer and to our own base."""
    return records.tables(None, _cells)


def _cells(comparison: Comparison) -> Table:
    unit, factor = formats.unit_of(comparison.rows)
    base = next((row for row in comparison.rows if ablations(row) == ("base",) and row.ok), None)
    heads = columns("engine", (formats.timed(comparison.rows), unit), *CELLS, ("first call", unit))
    return Table(heads, [_cell(row, factor, base) for row in comparison.rows])


def _cell(row: Row, factor: float, base: Row | None) -> list[Cell]:
    label = label_with_form(row)
    if row.time is None:
        return [label, formats.status(row), f"0 of {len(row.cells)}", *[NOTHING] * len(CELLS)]
    return [
        f"{label}{' ★' if row.fastest_peer else ''}",
        formats.measured(row.time, factor) + (" ≈" if row.extrapolated else "") + formats.doubtful(row),
        formats.processes(row),
        Value(row.busy(), "{:.2f}"),
        formats.ratio(row),
        times(row, base),
        formats.memory(row.median("memory", "peak")),
        Value(preparation_seconds(row)),
        formats.first_call(row, factor),
    ]


def overview(records: SuiteRecords) -> list[Block]:
    """One row per comparison that holds an engine of ours and a peer: ours at its best, the peer in its best form."""
    rows: list[Sequence[Cell]] = []
    factors: list[float] = []
    for dataset, comparison in records.comparisons():
        ours, peer = at_its_best(comparison.rows), fastest_peer(comparison.rows)
        if ours is None or peer is None:
            continue
        factor = times_as_fast(ours, peer)
        if factor is not None and is_headline(factor, ours, peer, comparison.rows):
            factors.append(factor.median)
        measured = [f"{seconds(row):.4g}{formats.doubtful(row)}" for row in (ours, peer)]
        label = peer.label + formats.marked(contest(ours, peer, comparison.rows))
        rows.append([name_of(dataset, comparison), ours.label, *measured, label, formats.times(factor)])
    if not rows:
        return []
    name = "geometric mean" + (" without the rows with ⚠" if len(factors) < len(rows) else "")
    mean = geometric_mean(factors) if factors else None
    rows.append([name, "", "", "", "", Value(mean, "{:.3g}x")])
    heads = columns("", "ours", ("", "s"), ("fastest peer", "s"), "which", "times as fast")
    return [Table(heads, [*rows, *records.published("overview", len(heads))])]


def peer_range(records: SuiteRecords, name: str | None) -> str:
    """How many times as fast ours at its best is as a peer in its best form, from least to most over the tables.

    Doubtful figures are left out and counted.
    """
    tables = [(at_its_best(one.rows), measured_peers(one.rows, name)) for _, one in records.comparisons()]
    return range_of([RowPair(ours, next(iter(peers), None), peers) for ours, peers in tables], "{:.3g}", " times")
