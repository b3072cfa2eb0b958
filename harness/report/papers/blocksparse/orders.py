"""What orders cost, and how many times as fast a call is in its best order as in the given and in a random one."""

from collections.abc import Mapping, Sequence

from datasets.hashes import digest
from harness.report import formats
from harness.report.comparisons import workload
from harness.report.content import NOTHING, Block, Cell, Table, Value, columns
from harness.report.rows import Row
from harness.report.speedups import times_as_fast
from harness.report.suites.factors import RowPair, range_of
from harness.report.suites.records import SuiteRecords, ablations, name_of, seconds

BASES = ("random", "none")


def costs(records: SuiteRecords) -> list[Block]:
    """One row per timed call and order, of our engine's fastest row in it."""
    rows: list[list[Cell]] = []
    for call, rows_of_call in _calls(records):
        fastest = _fastest_by_order(rows_of_call, ours=True)
        for order, row in fastest.items():
            ordering = row.prepare().get("order", 0.0)
            memory = row.record["dataset"].get("structure", {}).get("peak_memory", {}).get("order")
            even = [
                formats.break_even(row, fastest[base], ordering) if base in fastest and order not in BASES else NOTHING
                for base in BASES
            ]
            rows.append([f"{call}: {order}", Value(ordering), formats.memory(memory), Value(seconds(row)), *even])
    heads = columns(
        *("", ("ordering", "s"), "peak memory", ("call", "s"), "break-even with random", "break-even with given")
    )
    return [Table(heads, [*rows, *records.published("orders", len(heads))])] if rows else []


def _calls(records: SuiteRecords) -> list[tuple[str, list[Row]]]:
    """Name and rows of each timed call, in all orders: those of ``spmm`` stand in a table each."""
    calls: dict[str, dict[str, list[Row]]] = {}
    for number, dataset in enumerate(records.datasets):
        for comparison in dataset.comparisons:
            timed = workload(comparison.rows[0].record["config"]) | {"order": None}
            calls.setdefault(digest([number, timed]), {})[name_of(dataset, comparison)] = comparison.rows
    return [(min(tables, key=len), [row for rows in tables.values() for row in rows]) for tables in calls.values()]


def _fastest_by_order(rows: Sequence[Row], ours: bool) -> dict[str, Row]:
    """Our fastest row in each order, or the peers' fastest."""
    best: dict[str, Row] = {}
    for row in rows:
        if row.time is not None and row.timed and not ablations(row) and (row.ours if ours else row.peer):
            order = row.record["config"].get("order", {}).get("name", "none")
            best[order] = min(best.get(order, row), row, key=seconds)
    return best


def gain(records: SuiteRecords) -> str:
    """The range over data sets and widths, for ours."""
    return _range(records, ours=True)


def gain_of_peers(records: SuiteRecords) -> str:
    """The same for the fastest peer of each order."""
    return _range(records, ours=False)


def _range(records: SuiteRecords, ours: bool) -> str:
    tables = [_fastest_by_order(rows_of_call, ours) for _, rows_of_call in _calls(records)]
    parts = []
    for base in ("none", "random"):
        pairs = [RowPair(_best_beside(fastest, base), fastest[base]) for fastest in tables if base in fastest]
        parts.append(range_of(pairs, "{:.2g}", f" times (order {base})"))
    return ", ".join(part for part in parts if part != NOTHING) or NOTHING


def _best_beside(fastest: Mapping[str, Row], base: str) -> Row | None:
    """The fastest of the rows that were measured in turns with that of ``base``; None where that has no other."""
    in_turns = [row for row in fastest.values() if times_as_fast(row, fastest[base]) is not None]
    return min(in_turns, key=seconds) if len(in_turns) > 1 else None
