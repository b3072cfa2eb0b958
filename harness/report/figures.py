"""Figures of the reports as SVG, the same bytes for the same rows; matplotlib is imported when one is drawn."""

import io
import re
import textwrap
from collections.abc import Sequence
from itertools import cycle
from typing import TYPE_CHECKING, Any

from harness.report import content
from harness.report.comparisons import Comparison
from harness.report.formats import unit_of
from harness.report.rows import Row
from harness.store.statistics import Summary

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from harness.report.history import Headline
    from harness.report.pages.kernels import AggregationSpeedup

OWN, ATTENTION, PEER, FAINT = "#0b6e99", "#c05621", "#5f6368", "#d0d3d6"
STACK = ("#c05621", "#d69e2e", "#0b6e99", "#68a0b8", "#805ad5", "#4a5568", "#d0d3d6")  # one colour per part
WIDE = 25.0
LABEL = 48  # letters in a line of a row's label
PATH_NAME = r"(?<=[#\"])[a-zA-Z][0-9a-f]{10}(?=[\")])"


def svg(figure: content.Figure) -> str:
    """Draw a figure of a page as SVG, the same bytes for the same data."""
    import matplotlib

    options: Any = {"svg.hashsalt": "gnn-harness", "svg.fonttype": "none", "font.family": "DejaVu Sans", "font.size": 9}
    with matplotlib.rc_context(options):
        drawing = figure.draw(figure.data)
        text = io.StringIO()
        drawing.savefig(text, format="svg", metadata={"Date": None, "Creator": "gnn-harness report"})
    lines = (line.rstrip() for line in _without_last_digits(text.getvalue()).splitlines())
    return "\n".join(lines) + "\n"


def _without_last_digits(drawing: str) -> str:
    """Round coordinates to thousandths and number paths, named by a hash of all digits: processors differ in some."""
    names: dict[str, str] = {}
    drawing = re.sub(PATH_NAME, lambda name: names.setdefault(name[0], f"path-{len(names)}"), drawing)
    return re.sub(r"<[^>]*>", lambda tag: re.sub(r"-?\d+\.\d+", _rounded, tag[0]), drawing)


def _rounded(number: re.Match[str]) -> str:
    return f"{round(float(number[0]), 3) + 0.0:.3f}".rstrip("0").rstrip(".")


def draw_speedups(aggregations: "Sequence[AggregationSpeedup]") -> "Figure":
    """One line per data set, gat apart from the sums, the peer's speed at 1; logarithmic. Doubtful dots are hollow."""
    from matplotlib.figure import Figure

    names = list(dict.fromkeys(one.dataset.name for one in aggregations))
    figure = Figure(figsize=(7.5, 0.3 * len(names) + 1.1), layout="constrained")
    axes = figure.subplots()
    for attention, colour, what in ((False, OWN, "gcn, sage"), (True, ATTENTION, "gat")):
        for doubtful, filled, label in ((False, "full", what), (True, "none", None)):
            selected = [one for one in aggregations if (one.attention, bool(one.doubts)) == (attention, doubtful)]
            places = [names.index(one.dataset.name) + (0.14 if attention else -0.14) for one in selected]
            style: dict[str, Any] = {"color": colour, "alpha": 0.7, "markersize": 5, "fillstyle": filled}
            axes.plot([one.factor for one in selected], places, "o", label=label, **style)
    axes.axvline(1, color=PEER, linewidth=1)
    axes.set_xscale("log")
    axes.xaxis.set_major_formatter("{x:g}")
    axes.xaxis.set_minor_formatter("{x:g}")
    axes.tick_params(which="minor", labelsize=7)
    axes.set_yticks(range(len(names)), names)
    axes.set_ylim(len(names) - 0.4, -0.6)
    remark = "; hollow: doubtful" if any(one.doubts for one in aggregations) else ""
    axes.set_title(f"times as fast as the fastest peer{remark}", loc="left", fontsize=9, fontweight="bold")
    axes.grid(axis="x", color=FAINT, linewidth=0.6)
    axes.set_axisbelow(True)
    axes.legend(loc="center left", bbox_to_anchor=(1, 0.5), frameon=False)
    return figure


def draw_history(headline: "Headline") -> "Figure":
    """A dot with its interval per date; a line joins those of one machine and protocol, whose numbers compare."""
    from matplotlib.figure import Figure

    points = headline.points
    figure = Figure(figsize=(7.5, 1.9), layout="constrained")
    axes = figure.subplots()
    for colour, scope in zip(
        cycle((OWN, ATTENTION, PEER)), dict.fromkeys(point.scope for point in points), strict=False
    ):
        places = [place for place, point in enumerate(points) if point.scope == scope]
        axes.plot(places, [points[place].factor.median for place in places], "-", color=colour, label=scope.title)
        for place in places:
            hollow: dict[str, Any] = {"markerfacecolor": "white"} if points[place].doubts else {}
            axes.plot(place, points[place].factor.median, "o", color=colour, zorder=3, **hollow)
        low, high = ([getattr(points[place].factor, end) for place in places] for end in ("low", "high"))
        axes.vlines(places, low, high, colors=colour, linewidth=2.2, alpha=0.45)
    axes.axhline(1, color=PEER, linewidth=1)
    axes.set_xticks(range(len(points)), [f"{point.date}\n{point.commit}".strip() for point in points], fontsize=7)
    axes.set_xlim(-0.5, len(points) - 0.5)
    axes.set_ylim(0, 1.15 * max(max(point.factor.high, point.factor.median) for point in points))
    remark = "; hollow: doubtful" if any(point.doubts for point in points) else ""
    _title(axes, f"{headline.dataset}: {headline.title}, times as fast as the fastest peer{remark}")
    axes.grid(axis="y", color=FAINT, linewidth=0.6)
    axes.set_axisbelow(True)
    axes.legend(loc="center left", bbox_to_anchor=(1, 0.5), frameon=False, fontsize=7)
    return figure


def draw_times(comparisons: Sequence[Comparison]) -> "Figure":
    """Draw a dot with its interval per row, fastest on top; rows without a result stand below with their status."""
    from matplotlib.figure import Figure

    heights = [_height(panel.rows) for panel in comparisons]
    figure = Figure(figsize=(7.5, 0.26 * sum(heights) + 0.3), layout="constrained")
    panels = figure.subplots(len(comparisons), 1, squeeze=False, height_ratios=heights)[:, 0]
    for axes, comparison in zip(panels, comparisons, strict=True):
        _panel(axes, comparison)
    return figure


def _panel(axes: "Axes", comparison: Comparison) -> None:
    rows = comparison.rows
    unit, factor = unit_of(rows)
    for place, row in enumerate(rows):
        _dot(axes, place, row, factor)
    axes.set_yticks(range(len(rows)), [f"{_wrapped(row)}{' ★' if row.fastest_peer else ''}" for row in rows])
    axes.set_ylim(len(rows) - 0.4, -0.6)
    _title(axes, f"{comparison.title} [{unit}]")
    axes.grid(axis="x", color=FAINT, linewidth=0.6)
    axes.set_axisbelow(True)
    for side in axes.spines.values():
        side.set_visible(False)
    _scale(axes, [row.time.scaled(factor) for row in rows if row.time])
    axes.tick_params(which="both", length=0)


def draw_parts(comparisons: Sequence[Comparison]) -> "Figure":
    """A stacked bar per row: dropout, products, aggregation, loss, optimizer and the rest of an epoch."""
    from matplotlib.figure import Figure

    panels = [(comparison, [row for row in comparison.rows if row.parts()]) for comparison in comparisons]
    names = list(dict.fromkeys(name for _, rows in panels for row in rows for name in row.parts()))
    heights = [_height(rows) for _, rows in panels]
    figure = Figure(figsize=(7.5, 0.26 * sum(heights) + 0.7), layout="constrained")
    drawn = figure.subplots(len(panels), 1, squeeze=False, height_ratios=heights)[:, 0]
    for axes, (comparison, rows) in zip(drawn, panels, strict=True):
        unit, factor = unit_of(rows)
        left = [0.0] * len(rows)
        for colour, name in zip(cycle(STACK), names, strict=False):
            widths = [row.parts().get(name, 0.0) * factor for row in rows]
            axes.barh(range(len(rows)), widths, left=left, color=colour, height=0.7, label=name)
            left = [start + width for start, width in zip(left, widths, strict=True)]
        axes.set_yticks(range(len(rows)), [_wrapped(row) for row in rows])
        axes.set_ylim(len(rows) - 0.4, -0.6)
        _title(axes, f"{comparison.title} [{unit}]")
    figure.legend(*drawn[0].get_legend_handles_labels(), loc="outside lower center", ncols=len(names), frameon=False)
    return figure


def _wrapped(row: Row) -> str:
    """A row's label in lines that leave room for its bar."""
    return textwrap.fill(row.label, LABEL)


def _height(rows: Sequence[Row]) -> float:
    """Height of a panel in lines: its rows, all as high as the longest label, and its title."""
    lines = max((_wrapped(row).count("\n") + 1 for row in rows), default=1)
    return len(rows) * (1 + 0.6 * (lines - 1)) + 1.6


def _title(axes: "Axes", text: str) -> None:
    """A title that begins at the figure's left edge: a long one that began at the axis would be cut off."""
    from matplotlib.transforms import blended_transform_factory

    assert axes.figure is not None
    axes.set_title(" ", fontsize=9)  # keeps the space above the axes
    place = blended_transform_factory(axes.figure.transFigure, axes.transAxes)
    style: dict[str, Any] = {"fontsize": 9, "fontweight": "bold", "xytext": (0, 5), "textcoords": "offset points"}
    axes.annotate(text, (0.01, 1), xycoords=place, annotation_clip=False, **style).set_in_layout(False)


def _scale(axes: "Axes", times: Sequence[Summary]) -> None:
    """A linear scale from zero, or a logarithmic one where the times are too far apart for that."""
    if not times:
        axes.set_xticks([])
        return
    largest = max(max(time.high, time.median) for time in times)
    smallest = min(time.median for time in times)
    if largest <= WIDE * smallest:
        axes.set_xlim(0, 1.15 * largest)
        return
    axes.set_xscale("log")
    axes.set_xlim(0.6 * smallest, 2.2 * largest)
    axes.xaxis.set_major_formatter("{x:g}")


def _dot(axes: "Axes", place: int, row: Row, factor: float) -> None:
    if row.time is None:
        style: dict[str, Any] = {"transform": axes.get_yaxis_transform(), "va": "center", "color": PEER}
        axes.text(0.01, place, row.record["status"].replace("_", " "), fontstyle="italic", fontsize=8, **style)
        return
    time, colour = row.time.scaled(factor), OWN if row.native else PEER
    axes.plot([time.low, time.high], [place, place], color=colour, linewidth=2.2, alpha=0.45, solid_capstyle="butt")
    axes.plot([time.median], [place], "o", color=colour, markersize=5)
    beside: dict[str, Any] = {"xytext": (5, 0), "textcoords": "offset points", "va": "center", "fontsize": 8}
    axes.annotate(f"{time.median:.3g}", (max(time.high, time.median), place), color=colour, **beside)
