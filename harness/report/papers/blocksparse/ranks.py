"""Edges and received rows of the ranks, for each layout, order and bounds."""

from typing import Any

from harness.report import formats
from harness.report.content import NOTHING, Block, Cell, Table, Value, columns
from harness.report.rows import Row
from harness.report.suites.records import SuiteRecords, name_of, option

MIB = 1 << 20


def ranks(records: SuiteRecords) -> list[Block]:
    """One row per comparison and layout; one of ours that failed has its status."""
    rows: list[list[Cell]] = []
    for dataset, comparison in records.comparisons():
        for row in comparison.rows:
            name = f"{name_of(dataset, comparison)}: {layout(row)}"
            if row.ours and not row.ok:
                rows.append([name, formats.status(row), *[NOTHING] * 4])
            elif row.ok and (facts := _of_ranks(row)):
                rows.append([name, *_cells(facts, row)])
    heads = columns("", "most edges of a rank", "imbalance", "received", "bytes", "by")
    return [Table(heads, [*rows, *records.published("ranks", len(heads))])] if rows else []


def layout(row: Row) -> str:
    """Order, ranks, replication and bounds of a row in words."""
    order = row.record["config"].get("order", {"name": "none"})
    blocks = [f"{name}={order['options'][name]}" for name in ("inner", "blocks") if name in order.get("options", {})]
    count, copies = option(row, "ranks"), option(row, "replication")
    scheme = f"1.5D, r={copies}" if copies and int(copies) > 1 else "1D"
    return f"order {' '.join([order['name'], *blocks])}, p={count}, {scheme}, equal {option(row, 'bounds')}"


def _of_ranks(row: Row) -> dict[str, Any]:
    facts: dict[str, Any] = row.record.get("facts", {}).get("ranks", {})
    return facts


def _cells(facts: dict[str, Any], row: Row) -> list[Cell]:
    products = row.record["facts"].get("spmm")
    # of the training view, which has fewer rows than an inductive data set
    received = Value(max(facts["received_rows"]) / products[0]["rows"], "{:.3f}") if products else NOTHING
    return [
        Value(max(facts["edges"]), "{:,.0f}"),
        Value(facts["imbalance"], "{:.3f}"),
        received,
        Value(max(facts["bytes"]) / MIB, "{:.1f}"),
        str(option(row, "exchange")),
    ]
