"""The whole job, from the graph to the files of all parts, one table per graph."""

from harness.report import formats
from harness.report.comparisons import Comparison
from harness.report.content import NOTHING, Block, Cell, Table, Value, columns
from harness.report.rows import Row
from harness.report.suites.factors import times
from harness.report.suites.records import SuiteRecords, backend, call_seconds, option

HEADS = ("engine", ("job", "s"), "to DGL", "memory", "of DGL's memory", ("files", "MiB"), ("cut", "%"), "balance")


def jobs(records: SuiteRecords) -> list[Block]:
    """One table per comparison of scenario ``dispatch``."""
    return records.tables("dispatch", _table)


def _table(comparison: Comparison) -> Table:
    # the fastest of several stays, as rows are sorted by time
    of_dgl = {_is_random(row): row for row in reversed(comparison.rows) if row.ok and backend(row) == "dgl"}
    return Table(columns(*HEADS), [_row(row, of_dgl.get(_is_random(row))) for row in comparison.rows])


def _is_random(row: Row) -> bool:
    return "random" in (option(row, "part_method"), option(row, "method"))


def _row(row: Row, dgl: Row | None) -> list[Cell]:
    files = row.median("facts", "partition", "bytes")
    if row.time is None or files is None:
        return [row.label, formats.status(row), *[NOTHING] * (len(HEADS) - 2)]
    share = row.median("facts", "partition", "cut_share")
    balance = [value for record in row.ok for value in record["facts"].get("partition", {}).get("balance", ())]
    return [
        row.label,
        Value(call_seconds(row), "{:.2f}"),
        times(row, dgl, "{:.2f}x"),
        formats.memory(row.working_set()),
        Value(None if dgl is None else row.memory_beside(dgl), "{:.2f}"),
        Value(files / 2**20, "{:,.1f}"),
        Value(None if share is None else 100 * share, "{:.2f}"),
        Value(max(balance), "{:.3f}"),
    ]
