"""Test scores of all engines side by side, and how far ours are from each peer's."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from harness.report import formats
from harness.report.content import NOTHING, Block, Cell, Table, columns
from harness.report.rows import Row
from harness.report.suites.records import SuiteRecords, at_its_best, backend, name_of


@dataclass(frozen=True)
class Gap:
    """Our mean test score minus a peer's, over the seeds that both have; one data set, model and batching."""

    table: str
    metric: str
    peer: str
    seeds: int
    value: float


def scores(records: SuiteRecords) -> list[Block]:
    """One row per comparison: mean test scores over seeds, ours minus the nearest and the farthest peer's."""
    scored = []
    for dataset, comparison in records.comparisons("train"):
        ours = at_its_best(comparison.rows)
        if ours is not None and scores_on_test(ours):
            name = name_of(dataset, comparison)
            gaps = sorted(gaps_of(name, comparison.rows), key=lambda gap: abs(gap.value))
            title = f"{name} ({ours.metric})"
            scored.append((title, comparison.published, by_engine(comparison.rows), gaps))
    labels = list(dict.fromkeys(label for *_, values, _ in scored for label in sorted(values)))
    rows: list[list[Cell]] = [
        [
            title,
            f"{published.value:.3f} ({published.source})" if published else NOTHING,
            *[f"{formats.mean(values.get(label, []))}{_seeds(values.get(label, []))}" for label in labels],
            " … ".join(dict.fromkeys(f"{gap.value:+.4f}" for gap in (gaps[0], gaps[-1]))) if gaps else NOTHING,
        ]
        for title, published, values, gaps in scored
    ]
    return [Table(columns("", "published", *labels, "ours minus peers'"), rows)] if rows else []


def _seeds(values: Sequence[float]) -> str:
    return f" ({len(values)})" if values else ""


def by_engine(rows: Sequence[Row]) -> dict[str, list[float]]:
    """Test scores by backend; by the row's whole label where a backend has several."""
    engines = Counter(backend(row) for row in rows)
    return {backend(row) if engines[backend(row)] == 1 else row.label: scores_on_test(row) for row in rows}


def gaps_of(table: str, rows: Sequence[Row]) -> list[Gap]:
    """Our distance from each peer of a comparison, over the seeds that both have; other seeds would shift the means."""
    ours = at_its_best(rows)
    if ours is None:
        return []
    our_scores, gaps = by_seed(ours), []
    for row in rows:
        peer_scores = by_seed(row)
        both = sorted(our_scores.keys() & peer_scores.keys())
        if row.peer and both:
            value = float(np.mean([our_scores[seed] - peer_scores[seed] for seed in both]))
            gaps.append(Gap(table, ours.metric, row.label, len(both), value))
    return gaps


def by_seed(row: Row) -> dict[int, float]:
    """Test scores of a row by seed."""
    scored = [record for record in row.ok if isinstance(record.get("metrics", {}).get("test"), int | float)]
    return {int(record["config"]["seed"]): float(record["metrics"]["test"]) for record in scored}


def scores_on_test(row: Row) -> list[float]:
    """Test scores of a row, one per seed."""
    return row.values("metrics", "test")


def largest_gap(records: SuiteRecords) -> str:
    """Largest distance of our mean score from a peer's, where it is, and in how many tables it is below the paper's."""
    by_table = [gaps_of(name_of(dataset, one), one.rows) for dataset, one in records.comparisons("train")]
    largest = [max(gaps, key=lambda gap: abs(gap.value)) for gaps in by_table if gaps]
    if not largest:
        return NOTHING
    worst, close = max(largest, key=lambda gap: abs(gap.value)), records.constant("close")
    near = sum(abs(gap.value) < close for gap in largest)
    where = f"{worst.metric} of {worst.table}, {formats.plural(worst.seeds, 'seed')}, {worst.peer}"
    return f"at most {abs(worst.value):.4f} ({where}); below {close} in {near} of {len(largest)} tables"
