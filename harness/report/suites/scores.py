"""Blocks about what was learnt: scores of all engines side by side, and of one worker beside many."""

from collections.abc import Sequence

import numpy as np

from harness.report import tables
from harness.report.rows import Row
from harness.report.suites.part import SuitePart, at_its_best, name_of, option

NEAR = 0.005  # from the best score of one worker


def scores(held: SuitePart) -> str:
    """One line per comparison: mean test scores over seeds, ours minus the nearest and the farthest peer's."""
    found = []
    for part, comparison in held.comparisons("train"):
        ours, values = at_its_best(comparison.rows), {row.label: tested(row) for row in comparison.rows}
        peers = [np.mean(tested(row)) for row in comparison.rows if row.peer and tested(row)]
        if ours is not None and tested(ours):
            gaps = sorted((float(np.mean(tested(ours)) - peer) for peer in peers), key=abs)
            metric = ours.record["metrics"]["name"]
            found.append((f"{name_of(part, comparison)} ({metric})", comparison.published, values, gaps))
    names = list(dict.fromkeys(label for *_, values, _ in found for label in sorted(values)))
    lines = [
        [
            name,
            f"{published.value:.3f} ({published.source})" if published else tables.NOTHING,
            *[tables.mean(values.get(label, [])) for label in names],
            " … ".join(f"{gap:+.4f}" for gap in dict.fromkeys((gaps[0], gaps[-1]))) if gaps else tables.NOTHING,
        ]
        for name, published, values, gaps in found
    ]
    return tables.markdown(["", "published", *names, "ours minus peers'"], lines) if lines else ""


def tested(row: Row) -> list[float]:
    """Test scores of a row, one per seed."""
    return row.values("metrics", "test")


def largest_gap(held: SuitePart) -> str:
    """Largest distance of our mean score from a peer's."""
    gaps = []
    for _, comparison in held.comparisons("train"):
        ours = at_its_best(comparison.rows)
        if ours is not None and tested(ours):
            peers = [tested(row) for row in comparison.rows if row.peer and tested(row)]
            gaps += [abs(float(np.mean(tested(ours)) - np.mean(peer))) for peer in peers]
    return f"{max(gaps):.4f}" if gaps else tables.NOTHING


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
                    f"{row.time.median:.3g}" if row.time else tables.NOTHING,
                ]
            )
    metric = next((row.record["metrics"]["name"] for _, held_ in held.comparisons("train") for row in held_.rows
                   if row.record.get("metrics")), "score")  # fmt: skip
    head = ["", "workers", f"test {metric}", "minus one worker's", f"epochs to within {NEAR} of it", "epochs run"]
    return tables.markdown([*head, "epoch [s]"], lines) if lines else ""


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
