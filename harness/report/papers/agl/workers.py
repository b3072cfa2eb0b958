"""Scores by number of workers: their distance from one worker's score, and the epochs it took."""

from collections.abc import Sequence
from statistics import median

import numpy as np

from harness.report import formats
from harness.report.content import NOTHING, Block, Cell, Table, Value, columns
from harness.report.rows import Row
from harness.report.suites.records import SuiteRecords, name_of, option, workers_of
from harness.report.suites.scores import by_seed, scores_on_test

NEAR = 0.005  # from the best score of one worker


def workers(records: SuiteRecords) -> list[Block]:
    """One row per strategy and number of workers: score, its distance from one worker's, epochs it took."""
    rows: list[list[Cell]] = []
    for dataset, comparison in records.comparisons("train"):
        for alone, row in beside_one(comparison.rows):
            rows.append(
                [
                    f"{name_of(dataset, comparison)}: {option(row, 'strategy')}",
                    str(workers_of(row)),
                    formats.mean(scores_on_test(row)),
                    Value(_distance(row, alone), "{:+.4f}"),
                    Value(_epochs_until_near(row, alone)),
                    Value(row.median("metrics", "epochs_run")),
                    Value(_last_score(row), "{:.3f}"),
                    Value(row.time.median if row.time else None),
                ]
            )
    heads = columns(
        *("", "workers", f"test {_metric(records)}", "minus one worker's", f"epochs to within {NEAR} of it"),
        *("epochs run", "validation, last epoch", ("epoch", "s")),
    )
    return [Table(heads, rows)] if rows else []


def _metric(records: SuiteRecords) -> str:
    rows = (row for _, comparison in records.comparisons("train") for row in comparison.rows)
    return next((row.record["metrics"]["name"] for row in rows if row.record.get("metrics")), "score")


def beside_one(rows: Sequence[Row]) -> list[tuple[Row, Row]]:
    """Each scored row of several workers' strategies after the row of one worker of that strategy."""
    scored = sorted(
        (row for row in rows if row.ok and scores_on_test(row) and workers_of(row) and row.ours),
        key=lambda row: (str(option(row, "strategy")), workers_of(row)),
    )
    # the fastest of several stays, as rows are sorted by time
    alone = {option(row, "strategy"): row for row in reversed(scored) if workers_of(row) == 1}
    return [(alone[option(row, "strategy")], row) for row in scored if option(row, "strategy") in alone]


def largest_distance(records: SuiteRecords) -> str:
    """Largest distance of many workers' mean score from one worker's."""
    pairs = [pair for _, comparison in records.comparisons("train") for pair in beside_one(comparison.rows)]
    gaps = [_distance(row, alone) for alone, row in pairs if row is not alone]
    known = [abs(gap) for gap in gaps if gap is not None]
    return f"{max(known):.4f}" if known else NOTHING


def _distance(row: Row, alone: Row) -> float | None:
    """Mean score minus one worker's over the seeds that both have: other seeds would shift the means."""
    scores, others = by_seed(row), by_seed(alone)
    both = sorted(scores.keys() & others.keys())
    return float(np.mean([scores[seed] - others[seed] for seed in both])) if both else None


def _last_score(row: Row) -> float | None:
    """Median over seeds of the last epoch's validation score: the best one would hide a later divergence."""
    ends = [record["validation"][-1][2] for record in row.ok if record.get("validation")]
    return float(np.median(ends)) if ends else None


def _epochs_until_near(row: Row, alone: Row) -> float | None:
    """Median over seeds of the first epoch whose validation score is near the best of one worker."""
    best = max((point[2] for record in alone.ok for point in record.get("validation", ())), default=None)
    if best is None:
        return None
    first = [
        next((point[0] for point in record.get("validation", ()) if point[2] >= best - NEAR), None) for record in row.ok
    ]
    reached = [epoch for epoch in first if epoch is not None]
    return float(np.median(reached)) if len(reached) == len(first) else None


def curves(records: SuiteRecords) -> tuple[str, dict[str, list[tuple[int, dict[int, float]]]]]:
    """The metric, and by strategy the number of workers with the median validation score over seeds by epoch."""
    by_strategy: dict[str, list[tuple[int, dict[int, float]]]] = {}
    metric = "score"
    for dataset, comparison in records.comparisons("train"):
        for row in comparison.rows:
            if (scores := _scores_by_epoch(row)) and workers_of(row):
                metric = row.metric
                title = f"{name_of(dataset, comparison)}: {option(row, 'strategy')}"
                by_strategy.setdefault(title, []).append((workers_of(row), scores))
    return metric, by_strategy


def _scores_by_epoch(row: Row) -> dict[int, float]:
    by_epoch: dict[int, list[float]] = {}
    for record in row.ok:
        for epoch, _, score in record.get("validation", ()):
            by_epoch.setdefault(int(epoch), []).append(score)
    return {epoch: median(scores) for epoch, scores in sorted(by_epoch.items())}
