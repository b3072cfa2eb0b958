"""Preparation of GraphTrainer with GraphFlat, and the epochs after which it pays off against the fastest peer."""

from collections.abc import Sequence

from harness.report import formats
from harness.report.content import Block, Cell, Table, Value, columns
from harness.report.rows import Row
from harness.report.suites.records import (
    SuiteRecords,
    ablations,
    fastest_peer,
    name_of,
    preparation_seconds,
    scale_to_all_targets,
    seconds,
)

HEADS = (
    *("", "ours", ("prepared once", "s"), ("of that flatten", "s"), "bytes on disk", "copies of a node"),
    *("fastest peer", ("prepared once", "s"), ("epoch, ours", "s"), ("epoch, peer", "s"), "break-even epochs"),
)


def breakeven(records: SuiteRecords) -> list[Block]:
    """One row per row of ours that names no ablation, beside the fastest peer of its comparison."""
    rows: list[Sequence[Cell]] = []
    for dataset, comparison in records.comparisons("train"):
        peer = fastest_peer(comparison.rows)
        for row in comparison.rows:
            if peer is None or not row.ours or not row.ok or ablations(row):
                continue
            name = name_of(dataset, comparison)
            rows.append([name, row.label, *_preparation(row), peer.label, *_epochs(row, peer)])
    return [Table(columns(*HEADS), rows)] if rows else []


def _preparation(row: Row) -> list[Cell]:
    flattened, size = row.prepare().get("flatten"), row.median("facts", "bytes_on_disk")
    copies, factor = row.median("facts", "duplication"), scale_to_all_targets(row)
    return [
        Value(preparation_seconds(row)),
        Value(None if flattened is None else flattened * factor),
        formats.memory(None if size is None else size * factor),
        Value(copies, "{:.1f}"),
    ]


def _epochs(row: Row, peer: Row) -> list[Cell]:
    times = [Value(preparation_seconds(peer)), Value(seconds(row)), Value(seconds(peer))]
    return [*times, formats.break_even(row, peer, preparation_seconds(row) - preparation_seconds(peer))]
