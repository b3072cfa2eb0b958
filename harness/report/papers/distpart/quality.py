"""Seconds and quality of every engine's assignment, one table per graph and number of parts."""

from harness.report import formats
from harness.report.comparisons import Comparison
from harness.report.content import NOTHING, Block, Cell, Table, Value, columns
from harness.report.rows import Row
from harness.report.suites.records import SuiteRecords, backend, call_seconds, option

HEADS = (
    "engine",
    ("call", "ms"),
    ("cut", "%"),
    "to METIS",
    "rows of others",
    "held",
    "held, worst",
    "balance",
    "asked",
)


def assignments(records: SuiteRecords) -> list[Block]:
    """One table per comparison of scenario ``partition``."""
    return records.tables("partition", _table)


def _table(comparison: Comparison) -> Table:
    metis = next((row for row in comparison.rows if row.ok and _is_metis(row)), None)
    return Table(columns(*HEADS), [_row(row, metis) for row in comparison.rows])


def _is_metis(row: Row) -> bool:
    return backend(row) == "partitioners" and option(row, "tool") == "metis"


def _row(row: Row, metis: Row | None) -> list[Cell]:
    share = _quality(row, "cut_share")
    if row.time is None or share is None:
        return [row.label, formats.status(row), *[NOTHING] * (len(HEADS) - 2)]
    cut, of_metis = _quality(row, "cut"), None if metis is None else _quality(metis, "cut")
    balance = [value for record in row.ok for value in record["facts"]["partition"]["balance"]]
    return [
        row.label,
        Value(call_seconds(row) * 1e3),
        Value(100 * share, "{:.2f}"),
        Value(cut / of_metis if cut is not None and of_metis else None, "{:.2f}"),
        Value(_quality(row, "volume"), "{:,.0f}"),
        Value(_quality(row, "replication"), "{:.2f}"),
        Value(_quality(row, "worst_replication"), "{:.2f}"),
        Value(max(balance), "{:.3f}"),
        Value(_quality(row, "bound"), "{:.3f}"),
    ]


def _quality(row: Row, name: str) -> float | None:
    return row.median("facts", "partition", name)
