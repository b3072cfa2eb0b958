"""Block of hubs: how many in-edges come to each reducer of GraphFlat's tasks, with and without re-indexing."""

from typing import TYPE_CHECKING

from harness.report import figures, tables
from harness.report.rows import Row
from harness.report.suites.flat import rate
from harness.report.suites.part import SuitePart, name_of, option

if TYPE_CHECKING:
    from matplotlib.figure import Figure

HEAD = ("hubs from in-edges", "reducers", "in-edges", "mean load", "largest load", "largest / mean", "GraphFeatures/s")


def hubs(held: SuitePart) -> str:
    """One line per run of tasks, those without re-indexing last."""
    lines = [
        [where, threshold(row), str(len(loads)), *_balance(loads), tables.number(rate(row, "records"), "{:,.0f}")]
        for where, row, loads in measured(held)
    ]
    return tables.markdown(["", *HEAD], lines) if lines else ""


def measured(held: SuitePart) -> list[tuple[str, Row, list[int]]]:
    """Rows whose records hold the loads of reducers, with what they ran on; by threshold."""
    found = [
        (name_of(part, comparison), row, [int(load) for load in row.record["facts"]["reducer_loads"]])
        for part, comparison in held.comparisons("flatten")
        for row in comparison.rows
        if row.ok and row.record["facts"].get("reducer_loads")
    ]
    return sorted(found, key=lambda item: (item[0], int(option(item[1], "hub_threshold"))))


def threshold(row: Row) -> str:
    """From how many in-edges on a node is a hub; none where no node can have so many."""
    given = int(option(row, "hub_threshold"))
    return "none" if given >= int(row.record["dataset"]["counts"]["edges"]) else f"above {given:,}"


def _balance(loads: list[int]) -> list[str]:
    mean = sum(loads) / len(loads)
    return [f"{sum(loads):,}", f"{mean:,.0f}", f"{max(loads):,}", f"{max(loads) / mean:.3f}"]


def balances(held: SuitePart) -> str:
    """Largest over mean load without re-indexing and with it, for the claims."""
    found: dict[str, float] = {}
    for _, row, loads in measured(held):
        found.setdefault(threshold(row), max(loads) * len(loads) / sum(loads))
    if len(found) < 2 or "none" not in found:
        return tables.NOTHING
    return f"largest load / mean: {found.pop('none'):.2f} without, {min(found.values()):.2f} with"


def picture(held: SuitePart) -> str:
    """The loads of all reducers, largest first, as multiples of the mean, as SVG."""
    return figures.svg(lambda: draw(measured(held)))


def draw(found: list[tuple[str, Row, list[int]]]) -> "Figure":
    """A line per run."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7.5, 2.8), layout="constrained")
    axes = figure.subplots()
    colours = (figures.OWN, figures.ATTENTION, figures.PEER)
    for number, (_, row, loads) in enumerate(found):
        mean = sum(loads) / len(loads)
        heights = sorted((load / mean for load in loads), reverse=True)
        name = f"hubs: {threshold(row)}"
        axes.plot(range(1, len(loads) + 1), heights, ".-", color=colours[number % len(colours)], label=name)
    axes.axhline(1, color=figures.FAINT, linewidth=1)
    axes.set_xlabel("reducer, largest load first")
    axes.set_title("in-edges of a reducer / mean", loc="left", fontsize=9, fontweight="bold")
    axes.grid(axis="y", color=figures.FAINT, linewidth=0.6)
    axes.set_axisbelow(True)
    axes.legend(frameon=False)
    return figure
