"""Figures of AGL's suites: speed-up by workers, scores by epoch, cost by size, loads of reducers."""

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from harness.report.figures import ATTENTION, FAINT, OWN, PEER
from harness.report.papers.agl.cost import Series
from harness.report.papers.agl.hubs import threshold
from harness.report.rows import Row

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

COLOURS = ("#0b6e99", "#c05621", "#5f6368", "#2f855a", "#805ad5", "#b7791f")
STYLES = ("-", "--", ":", "-.")


def _panels(titles: Sequence[str]) -> "tuple[Figure, list[Axes]]":
    """Panels below each other, one per title; without titles a single panel that says so."""
    from matplotlib.figure import Figure

    titles = titles or ["nothing was measured that could be drawn"]
    figure = Figure(figsize=(7.5, 2.9 * len(titles)), layout="constrained")
    panels = list(figure.subplots(len(titles), 1, squeeze=False)[:, 0])
    for axes, title in zip(panels, titles, strict=True):
        axes.set_title(title, loc="left", fontsize=9, fontweight="bold")
        axes.grid(color=FAINT, linewidth=0.6)
        axes.set_axisbelow(True)
    return figure, panels


def _label(axes: "Axes", across: str, up: str) -> None:
    axes.set_xlabel(across)
    axes.set_ylabel(up)
    axes.legend(loc="center left", bbox_to_anchor=(1, 0.5), frameon=False, fontsize=8)


def draw_speedups(data: tuple[Sequence[tuple[str, Sequence[dict[str, Any]]]], tuple[int, float]]) -> "Figure":
    """Measured speed-ups as dots, the model's lines by assumed network, linear and the paper's point."""
    comparisons, paper = data
    figure, panels = _panels([name for name, _ in comparisons])
    for axes, (_, rows) in zip(panels, comparisons, strict=False):
        _speedup(axes, rows, paper)
        _label(axes, "workers", "speed-up over one")
    return figure


def _speedup(axes: "Axes", rows: Sequence[dict[str, Any]], paper: tuple[int, float]) -> None:
    networks = list(dict.fromkeys(row["network"] for row in rows if row["kind"] == "model"))
    for place, strategy in enumerate(dict.fromkeys(row["strategy"] for row in rows)):
        colour = COLOURS[place % len(COLOURS)]
        of_strategy = [row for row in rows if row["strategy"] == strategy]
        for style, network in zip(STYLES, networks, strict=False):
            line = [(row["workers"], row["speedup"]) for row in of_strategy if row.get("network") == network]
            axes.plot(*zip(*line, strict=True), style, color=colour, label=f"{strategy}, model, {network}")
        dots = [(row["workers"], row["speedup"]) for row in of_strategy if row["kind"] == "measured"]
        axes.plot(*zip(*dots, strict=True), "o", color=colour, label=f"{strategy}, measured")
    axes.plot([1, paper[0]], [1, paper[0]], color=PEER, linewidth=0.8, label="linear")
    axes.plot(*paper, "x", color="black", label="paper, its cluster")


def draw_curves(data: tuple[str, Mapping[str, Sequence[tuple[int, Mapping[int, float]]]]]) -> "Figure":
    """Median validation score over seeds by epoch, a panel per strategy, a line per number of workers."""
    metric, curves = data
    figure, panels = _panels(sorted(curves))
    for axes, title in zip(panels, sorted(curves), strict=False):
        for place, (workers, scores) in enumerate(sorted(curves[title], key=lambda line: line[0])):
            style: dict[str, Any] = {"color": COLOURS[place % len(COLOURS)], "label": f"workers={workers}"}
            axes.plot(list(scores), list(scores.values()), "o-", markersize=3, **style)
        _label(axes, "epoch", f"validation {metric}")
    return figure


def draw_costs(panels: Mapping[str, Sequence[Series]]) -> "Figure":
    """Microseconds of a unit of work by nodes, both logarithmic, a panel per stage, a line per engine."""
    figure, all_axes = _panels(list(panels))
    for axes, curves in zip(all_axes, panels.values(), strict=False):
        _cost(axes, curves)
        _label(axes, "nodes", "µs")
    return figure


def _cost(axes: "Axes", curves: Sequence[Series]) -> None:
    for place, curve in enumerate(curves):
        points = [(point.nodes, point.each * 1e6) for point in curve.points]
        axes.loglog(*zip(*points, strict=True), "o-", color=COLOURS[place % len(COLOURS)], label=curve.name)
    low, high = axes.get_ylim()
    # whole decades: an axis that shows a part of one exaggerates small differences
    axes.set_ylim(10 ** math.floor(math.log10(low)), 10 ** math.ceil(math.log10(high)))
    axes.yaxis.set_major_formatter("{x:,g}")
    axes.xaxis.set_major_formatter("{x:,.0f}")
    axes.xaxis.set_minor_formatter("")
    axes.yaxis.set_minor_formatter("")


def draw_hubs(runs: Sequence[tuple[str, Row, Sequence[int]]]) -> "Figure":
    """The loads of all reducers, largest first, as multiples of the mean; a line per run."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7.5, 2.8), layout="constrained")
    axes = figure.subplots()
    colours = (OWN, ATTENTION, PEER)
    for place, (_, row, loads) in enumerate(runs):
        mean = sum(loads) / len(loads)
        heights = sorted((load / mean for load in loads), reverse=True)
        label = f"hubs: {threshold(row)}"
        axes.plot(range(1, len(loads) + 1), heights, ".-", color=colours[place % len(colours)], label=label)
    axes.axhline(1, color=FAINT, linewidth=1)
    axes.set_xlabel("reducer, largest load first")
    axes.set_title("in-edges of a reducer / mean", loc="left", fontsize=9, fontweight="bold")
    axes.grid(axis="y", color=FAINT, linewidth=0.6)
    axes.set_axisbelow(True)
    axes.legend(frameon=False)
    return figure
