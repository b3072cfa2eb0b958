"""How many times as fast an epoch is with panels and tiles as without them."""

from typing import Any

from harness.report.rows import Row
from harness.report.suites.factors import RowPair, range_of
from harness.report.suites.records import SuiteRecords, option

FORMS = ("panels", "tiles")
Layout = tuple[Any, ...]


def gain(records: SuiteRecords) -> str:
    """The range over the epochs of data sets, orders, widths and layouts."""
    pairs: list[RowPair] = []
    for _, comparison in records.comparisons("train"):
        by_layout: dict[Layout, dict[bool, Row]] = {}
        for row in reversed(comparison.rows):  # the fastest of several stays, as rows are sorted by time
            if row.time is not None and row.timed:
                by_layout.setdefault(_layout(row), {})[is_off(row)] = row
        pairs += [RowPair(rows[False], rows[True]) for rows in by_layout.values() if len(rows) == 2]
    return range_of(pairs, "{:.2f}", " times")


def is_off(row: Row) -> bool:
    """Whether a row's engine tried neither panels nor tiles."""
    return all(str(option(row, name)) == "false" for name in FORMS)


def _layout(row: Row) -> Layout:
    order = row.record["config"].get("order", {}).get("name", "none")
    return order, option(row, "ranks"), option(row, "replication")
