"""Load of each reducer of GraphFlat (in-edges that it receives), with and without re-indexing of hubs."""

from harness.report.content import NOTHING, Block, Cell, Table, Value, columns
from harness.report.rows import Row
from harness.report.suites.records import SuiteRecords, name_of, option, rate

HEADS = ("hubs from in-edges", "reducers", "in-edges", "mean load", "largest load", "largest / mean", "GraphFeatures/s")


def hubs(records: SuiteRecords) -> list[Block]:
    """One row per run of tasks, those without re-indexing last."""
    rows: list[list[Cell]] = [
        [name, threshold(row), str(len(loads)), *_balance(loads), Value(rate(row, "records"), "{:,.0f}")]
        for name, row, loads in measured(records)
    ]
    return [Table(columns("", *HEADS), rows)] if rows else []


def measured(records: SuiteRecords) -> list[tuple[str, Row, list[int]]]:
    """Rows whose records hold the loads of reducers, with the name of their comparison; by threshold."""
    rows = [
        (name_of(dataset, comparison), row, [int(load) for load in row.record["facts"]["reducer_loads"]])
        for dataset, comparison in records.comparisons("flatten")
        for row in comparison.rows
        if row.ok and row.record["facts"].get("reducer_loads")
    ]
    return sorted(rows, key=lambda run: (run[0], int(option(run[1], "hub_threshold"))))


def threshold(row: Row) -> str:
    """The in-degree above which a node is a hub; ``none`` where no node can reach it."""
    in_edges = int(option(row, "hub_threshold"))
    return "none" if in_edges >= int(row.record["dataset"]["counts"]["edges"]) else f"above {in_edges:,}"


def _balance(loads: list[int]) -> list[Cell]:
    mean, largest = sum(loads) / len(loads), max(loads)
    return [f"{sum(loads):,}", Value(mean, "{:,.0f}"), f"{largest:,}", Value(largest / mean, "{:.3f}")]


def balances(records: SuiteRecords) -> str:
    """Largest over mean load without re-indexing and with it, for the claims."""
    by_threshold: dict[str, float] = {}
    for _, row, loads in measured(records):
        by_threshold.setdefault(threshold(row), max(loads) * len(loads) / sum(loads))
    if len(by_threshold) < 2 or "none" not in by_threshold:
        return NOTHING
    return f"largest load / mean: {by_threshold.pop('none'):.2f} without, {min(by_threshold.values()):.2f} with"
