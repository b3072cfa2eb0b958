"""Pictures of suites' pages: speed-up by workers, scores by epoch, cost by size; drawn only where there are rows."""

import math
from collections.abc import Sequence
from statistics import median
from typing import TYPE_CHECKING, Any

from harness.report.figures import FAINT, PEER, svg
from harness.report.rows import Row
from harness.report.suites import cost, speedup
from harness.report.suites.part import SuitePart, name_of, option

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

COLOURS = ("#0b6e99", "#c05621", "#5f6368", "#2f855a", "#805ad5", "#b7791f")
STYLES = ("-", "--", ":", "-.")
PAPER = (100, 78)  # workers and speed-up (AGL, section 4.3)


def _panels(titles: Sequence[str]) -> "tuple[Figure, list[Axes]]":
    """One panel below the other, each with its title; one that says so where there is nothing."""
    from matplotlib.figure import Figure

    titles = titles or ["nothing was measured that could be drawn"]

    figure = Figure(figsize=(7.5, 2.9 * len(titles)), layout="constrained")
    panels = list(figure.subplots(len(titles), 1, squeeze=False)[:, 0])
    for axes, title in zip(panels, titles, strict=True):
        axes.set_title(title, loc="left", fontsize=9, fontweight="bold")
        axes.grid(color=FAINT, linewidth=0.6)
        axes.set_axisbelow(True)
    return figure, panels


def _legend(axes: "Axes", across: str, up: str) -> None:
    axes.set_xlabel(across)
    axes.set_ylabel(up)
    axes.legend(loc="center left", bbox_to_anchor=(1, 0.5), frameon=False, fontsize=8)


def speedup_by_workers(held: SuitePart) -> str:
    """Measured speed-ups as dots, the model's lines by assumed network, linear and the paper's point."""
    found = [
        (name_of(part, comparison), list(speedup.predicted(held, comparison.rows)))
        for part, comparison in held.comparisons("train")
    ]
    found = [(name, rows) for name, rows in found if rows]

    def draw() -> "Figure":
        figure, panels = _panels([name for name, _ in found])
        for axes, (_, rows) in zip(panels, found, strict=False):
            _speedup(axes, rows)
            _legend(axes, "workers", "speed-up over one")
        return figure

    return svg(draw)


def _speedup(axes: "Axes", rows: Sequence[dict[str, Any]]) -> None:
    networks = list(dict.fromkeys(row["network"] for row in rows if row["kind"] == "model"))
    for place, strategy in enumerate(dict.fromkeys(row["strategy"] for row in rows)):
        own, colour = [row for row in rows if row["strategy"] == strategy], COLOURS[place % len(COLOURS)]
        for style, network in zip(STYLES, networks, strict=False):
            line = [(row["workers"], row["speedup"]) for row in own if row.get("network") == network]
            axes.plot(*zip(*line, strict=True), style, color=colour, label=f"{strategy}, model, {network}")
        dots = [(row["workers"], row["speedup"]) for row in own if row["kind"] == "measured"]
        axes.plot(*zip(*dots, strict=True), "o", color=colour, label=f"{strategy}, measured")
    axes.plot([1, PAPER[0]], [1, PAPER[0]], color=PEER, linewidth=0.8, label="linear")
    axes.plot(*PAPER, "x", color="black", label="paper, its cluster")


def scores_by_epoch(held: SuitePart) -> str:
    """Median validation score over seeds by epoch, a panel per strategy, a line per number of workers."""
    curves: dict[str, list[tuple[int, dict[int, float]]]] = {}
    metric = "score"
    for part, comparison in held.comparisons("train"):
        for row in comparison.rows:
            if (points := _curve(row)) and option(row, "workers"):
                metric = str(row.record["metrics"]["name"])
                title = f"{name_of(part, comparison)}: {option(row, 'strategy')}"
                curves.setdefault(title, []).append((int(option(row, "workers")), points))

    def draw() -> "Figure":
        figure, panels = _panels(sorted(curves))
        for axes, title in zip(panels, sorted(curves), strict=False):
            for place, (workers, points) in enumerate(sorted(curves[title], key=lambda item: item[0])):
                style: dict[str, Any] = {"color": COLOURS[place % len(COLOURS)], "label": f"workers={workers}"}
                axes.plot(list(points), list(points.values()), "o-", markersize=3, **style)
            _legend(axes, "epoch", f"validation {metric}")
        return figure

    return svg(draw)


def _curve(row: Row) -> dict[int, float]:
    """Median score by epoch over the seeds that ran it."""
    by_epoch: dict[int, list[float]] = {}
    for record in row.ok:
        for epoch, _, score in record.get("validation", ()):
            by_epoch.setdefault(int(epoch), []).append(score)
    return {epoch: median(values) for epoch, values in sorted(by_epoch.items())}


def cost_by_size(held: SuitePart) -> str:
    """Microseconds of a unit of work by nodes, both logarithmic, a panel per stage, a line per engine."""
    items = cost.series(held)
    stages = [stage for stage in cost.WORK if any(item.stage == stage for item in items)]
    titles = [f"{stage}: µs per unit of work ({cost.WORK[stage][0].split(',')[0]})" for stage in stages]

    def draw() -> "Figure":
        figure, panels = _panels(titles)
        for axes, stage in zip(panels, stages, strict=False):
            _cost(axes, [item for item in items if item.stage == stage])
            _legend(axes, "nodes", "µs")
        return figure

    return svg(draw)


def _cost(axes: "Axes", items: Sequence[cost.Series]) -> None:
    for place, item in enumerate(items):
        spent = [(point.nodes, point.each * 1e6) for point in item.points]
        axes.loglog(*zip(*spent, strict=True), "o-", color=COLOURS[place % len(COLOURS)], label=item.name)
    low, high = axes.get_ylim()
    # whole decades: a part of one would look like a mountain
    axes.set_ylim(10 ** math.floor(math.log10(low)), 10 ** math.ceil(math.log10(high)))
    axes.yaxis.set_major_formatter("{x:,g}")
    axes.xaxis.set_major_formatter("{x:,.0f}")
    axes.xaxis.set_minor_formatter("")
    axes.yaxis.set_minor_formatter("")
