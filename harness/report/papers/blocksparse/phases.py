"""Seconds of a pass on each rank: products with the matrix, messages, the rest."""

from typing import Any

from harness.report.content import NOTHING, Block, Cell, Table, Value, columns
from harness.report.papers.blocksparse.forms import FORMS, is_off
from harness.report.papers.blocksparse.ranks import layout
from harness.report.rows import Row
from harness.report.suites.records import SuiteRecords, name_of


def phases(records: SuiteRecords) -> list[Block]:
    """One row per comparison and layout, of the rank with the most seconds."""
    rows: list[list[Cell]] = []
    for dataset, comparison in records.comparisons("train"):
        for row in comparison.rows:
            if slowest := _slowest(row):
                name = f"{name_of(dataset, comparison)}: {layout(row)}"
                rows.append([name, _forms(row), *_cells(slowest), _note(row)])
    heads = columns("", "panels and tiles", "aggregate", "dense", "messages", "exposed", "")
    return [Table(heads, [*rows, *records.published("phases", len(heads))])] if rows else []


def _slowest(row: Row) -> dict[str, float]:
    of_ranks: list[dict[str, float]] = _facts(row).get("phases", [])
    return max(of_ranks, key=_seconds, default={})


def _seconds(phase: dict[str, float]) -> float:
    return phase["aggregate"] + phase["dense"] + phase["exposed"]


def _cells(phase: dict[str, float]) -> list[Cell]:
    return [Value(phase[name], "{:.4f}") for name in ("aggregate", "dense", "comm", "exposed")]


def _forms(row: Row) -> str:
    """Which forms the ranks chose, or that they were off."""
    if is_off(row):
        return "off"
    chosen = {name for forms in _facts(row).get("forms", []) for name in FORMS if forms.get(name)}
    return ", ".join(sorted(chosen)) or "none won"


def _note(row: Row) -> str:
    return f"more ranks than the {row.shared:g} cores or threads" if row.oversubscribed else NOTHING


def _facts(row: Row) -> dict[str, Any]:
    facts: dict[str, Any] = row.record.get("facts", {}).get("ranks", {}) if row.ok else {}
    return facts
