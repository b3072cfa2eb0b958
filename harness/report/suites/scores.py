"""Blocks about what was learnt: scores of all engines side by side, and of one worker beside many."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from harness.report import tables
from harness.report.rows import Row
from harness.report.suites.part import SuitePart, at_its_best, backend, name_of, option

NEAR = 0.005  # from the best score of one worker
CLOSE = 0.01  # as the paper has it (AGL, section 4.2)


@dataclass(frozen=True)
class Gap:
    """Our mean test score minus a peer's, over the seeds that both have; one data set, model and batching."""

    table: str
    metric: str
    peer: str
    seeds: int
    value: float


def scores(held: SuitePart) -> str:
    """One line per comparison: mean test scores over seeds, ours minus the nearest and the farthest peer's."""
    found = []
    for part, comparison in held.comparisons("train"):
        ours = at_its_best(comparison.rows)
        if ours is not None and tested(ours):
            away = sorted(gaps_of(name_of(part, comparison), comparison.rows), key=lambda gap: abs(gap.value))
            named = f"{name_of(part, comparison)} ({ours.record['metrics']['name']})"
            found.append((named, comparison.published, by_engine(comparison.rows), away))
    names = list(dict.fromkeys(label for *_, values, _ in found for label in sorted(values)))
    lines = [
        [
            name,
            f"{published.value:.3f} ({published.source})" if published else tables.NOTHING,
            *[f"{tables.mean(values.get(label, []))}{_seeds(values.get(label, []))}" for label in names],
            " … ".join(dict.fromkeys(f"{gap.value:+.4f}" for gap in (away[0], away[-1]))) if away else tables.NOTHING,
        ]
        for name, published, values, away in found
    ]
    return tables.markdown(["", "published", *names, "ours minus peers'"], lines) if lines else ""


def _seeds(values: Sequence[float]) -> str:
    return f" ({len(values)})" if values else ""


def by_engine(rows: Sequence[Row]) -> dict[str, list[float]]:
    """Test scores by engine; by the row's whole label where an engine has several."""
    engines = Counter(backend(row) for row in rows)
    return {backend(row) if engines[backend(row)] == 1 else row.label: tested(row) for row in rows}


def gaps_of(table: str, rows: Sequence[Row]) -> list[Gap]:
    """Our distance from each peer of a comparison, over common seeds only: a seed more would be another mean."""
    ours = at_its_best(rows)
    if ours is None:
        return []
    mine, found = by_seed(ours), []
    for row in rows:
        others = by_seed(row)
        both = sorted(mine.keys() & others.keys())
        if row.peer and both:
            value = float(np.mean([mine[seed] - others[seed] for seed in both]))
            found.append(Gap(table, ours.record["metrics"]["name"], row.label, len(both), value))
    return found


def by_seed(row: Row) -> dict[int, float]:
    """Test scores of a row by seed."""
    scored = [record for record in row.ok if isinstance(record.get("metrics", {}).get("test"), int | float)]
    return {int(record["config"]["seed"]): float(record["metrics"]["test"]) for record in scored}


def tested(row: Row) -> list[float]:
    """Test scores of a row, one per seed."""
    return row.values("metrics", "test")


def largest_gap(held: SuitePart) -> str:
    """Largest distance of our mean score from a peer's, where it is, and in how many tables it is below 0.01."""
    tables_ = [gaps_of(name_of(part, comparison), comparison.rows) for part, comparison in held.comparisons("train")]
    most = [max(found, key=lambda gap: abs(gap.value)) for found in tables_ if found]
    if not most:
        return tables.NOTHING
    worst = max(most, key=lambda gap: abs(gap.value))
    near = sum(abs(gap.value) < CLOSE for gap in most)
    where = f"{worst.metric} of {worst.table}, {worst.seeds} seed{'s' if worst.seeds > 1 else ''}, {worst.peer}"
    return f"at most {abs(worst.value):.4f} ({where}); below {CLOSE} in {near} of {len(most)} tables"


def workers(held: SuitePart) -> str:
    """One line per strategy and number of workers: score, its distance from one worker's, epochs it took."""
    lines = []
    for part, comparison in held.comparisons("train"):
        for alone, row in beside_one(comparison.rows):
            distance = float(np.mean(tested(row)) - np.mean(tested(alone)))
            lines.append(
                [
                    f"{name_of(part, comparison)}: {option(row, 'strategy')}",
                    str(option(row, "workers")),
                    tables.mean(tested(row)),
                    f"{distance:+.4f}",
                    tables.number(_reached(row, alone), "{:.3g}"),
                    tables.number(row.middle("metrics", "epochs_run"), "{:.3g}"),
                    tables.number(_last(row), "{:.3f}"),
                    f"{row.time.median:.3g}" if row.time else tables.NOTHING,
                ]
            )
    metric = next((row.record["metrics"]["name"] for _, held_ in held.comparisons("train") for row in held_.rows
                   if row.record.get("metrics")), "score")  # fmt: skip
    head = ["", "workers", f"test {metric}", "minus one worker's", f"epochs to within {NEAR} of it", "epochs run"]
    return tables.markdown([*head, "validation, last epoch", "epoch [s]"], lines) if lines else ""


def beside_one(rows: Sequence[Row]) -> list[tuple[Row, Row]]:
    """Each scored row of several workers' strategies after the row of one worker of that strategy."""
    scored = sorted(
        (row for row in rows if row.ok and tested(row) and option(row, "workers") and not row.peer),
        key=lambda row: (str(option(row, "strategy")), int(option(row, "workers"))),
    )
    alone = {option(row, "strategy"): row for row in scored if option(row, "workers") == 1}
    return [(alone[option(row, "strategy")], row) for row in scored if option(row, "strategy") in alone]


def largest_distance(held: SuitePart) -> str:
    """Largest distance of many workers' mean score from one worker's."""
    pairs = [pair for _, comparison in held.comparisons("train") for pair in beside_one(comparison.rows)]
    gaps = [abs(float(np.mean(tested(row)) - np.mean(tested(alone)))) for alone, row in pairs if row is not alone]
    return f"{max(gaps):.4f}" if gaps else tables.NOTHING


def _last(row: Row) -> float | None:
    """Median over seeds of the last epoch's validation score: the best one hides a worker that strayed afterwards."""
    ends = [record["validation"][-1][2] for record in row.ok if record.get("validation")]
    return float(np.median(ends)) if ends else None


def _reached(row: Row, alone: Row) -> float | None:
    """Median over seeds of the first epoch whose validation score is near the best of one worker."""
    best = max((point[2] for record in alone.ok for point in record.get("validation", ())), default=None)
    if best is None:
        return None
    first = [
        next((point[0] for point in record.get("validation", ()) if point[2] >= best - NEAR), None) for record in row.ok
    ]
    reached = [epoch for epoch in first if epoch is not None]
    return float(np.median(reached)) if len(reached) == len(first) else None
