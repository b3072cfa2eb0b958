"""Products with dense tiles by the density from which a tile is dense: time, dense share, multiplications, hits."""

from collections.abc import Mapping
from typing import TYPE_CHECKING

from harness.report import formats
from harness.report.content import Block, Cell, Table, Value, columns
from harness.report.figures import FAINT
from harness.report.rows import Row, ratio_of
from harness.report.suites.records import SuiteRecords, name_of, option, seconds

if TYPE_CHECKING:
    from matplotlib.figure import Figure

AUTO, NO_TILES = "auto", "no tiles"
PANELS = ("time of one call [ms]", "dense share of the edges", "modelled hit rate")
LEAST_SHARE = 0.05  # of the edges in tiles, whose cost is else lost in the noise of the whole product
Point = tuple[float, float | None, float | None]


def thresholds(records: SuiteRecords) -> list[Block]:
    """One row per product and threshold, then that of trials and the product without tiles."""
    rows: list[list[Cell]] = []
    for name, by_threshold in _sweeps(records).items():
        without = by_threshold.get(NO_TILES)
        for threshold, row in by_threshold.items():
            rows.append([f"{name}: {_words(threshold, row)}", *_cells(row, without)])
    heads = columns("", ("time", "ms"), "dense share", "multiplications per edge", "a tile pays from", "hit rate")
    return [Table(heads, [*rows, *records.published("thresholds", len(heads))])] if rows else []


def sweeps(records: SuiteRecords) -> dict[str, dict[str, Point]]:
    """Milliseconds, dense share and hit rate by threshold, of each product."""
    return {
        name: {threshold: (1e3 * seconds(row), _share(row), _hits(row)) for threshold, row in by_threshold.items()}
        for name, by_threshold in _sweeps(records).items()
    }


def draw(data: Mapping[str, Mapping[str, Point]]) -> "Figure":
    """A panel each for times, dense shares and hit rates, one line per product."""
    from matplotlib.figure import Figure

    names = sorted({threshold for points in data.values() for threshold in points}, key=_place)
    figure = Figure(figsize=(7.5, 6.6), layout="constrained")
    for part, (axes, title) in enumerate(zip(figure.subplots(len(PANELS), 1, sharex=True), PANELS, strict=True)):
        for label, points in data.items():
            known = [(names.index(name), value) for name, point in points.items() if (value := point[part]) is not None]
            axes.plot([at for at, _ in known], [value for _, value in known], "o-", markersize=3, label=label)
        axes.set_title(title, loc="left", fontsize=9, fontweight="bold")
        axes.set_ylim(bottom=0)
        axes.set_xticks(range(len(names)), names)
        axes.grid(color=FAINT, linewidth=0.6)
    if data:
        axes.legend(frameon=False, fontsize=7)
    axes.set_xlabel("density from which a tile is dense")
    return figure


def _sweeps(records: SuiteRecords) -> dict[str, dict[str, Row]]:
    """The row of each threshold by product, in the order of thresholds; the fastest of several."""
    named: dict[str, dict[str, Row]] = {}
    for dataset, comparison in records.comparisons():
        rows = [row for row in comparison.rows if row.time is not None and option(row, "density_threshold") is not None]
        by_threshold = {_threshold(row): row for row in reversed(rows)}  # rows are sorted by time
        if by_threshold:
            named[name_of(dataset, comparison)] = {
                name: by_threshold[name] for name in sorted(by_threshold, key=_place)
            }
    return named


def _threshold(row: Row) -> str:
    return NO_TILES if str(option(row, "tiles")) == "false" else str(option(row, "density_threshold"))


def _place(threshold: str) -> tuple[int, float]:
    """Numbers first, by size."""
    names = (AUTO, NO_TILES)
    return (1 + names.index(threshold), 0.0) if threshold in names else (0, float(threshold))


def _words(threshold: str, row: Row) -> str:
    """The threshold, and what trials chose where it was left to them."""
    if threshold != AUTO:
        return threshold
    chosen = sorted(set(row.record["facts"].get("threshold", {}).values()))
    return f"{AUTO}, {' and '.join(f'{density:g}' for density in chosen) or NO_TILES} chosen"


def _cells(row: Row, without: Row | None) -> list[Cell]:
    pays = None if without is None else _crossover(row, without)
    time = f"{Value(1e3 * seconds(row))}{formats.doubtful(row)}"
    shares = [Value(_share(row), "{:.1%}"), Value(_inflation(row), "{:.2f}"), Value(pays, "{:.0%}")]
    return [time, *shares, Value(_hits(row), "{:.1%}")]


def _inflation(row: Row) -> float | None:
    inflation = row.record["facts"].get("inflation")
    return None if inflation is None else max(inflation.values(), default=1.0)


def _crossover(row: Row, without: Row) -> float | None:
    """Density from which a tile takes less time than its edges: a cell's seconds over those of an edge without tiles.

    The edges outside tiles are taken to cost what they cost without tiles.
    """
    share, inflation, ratio = _share(row), _inflation(row), ratio_of(row, without)
    if share is None or share < LEAST_SHARE or inflation is None or ratio is None:
        return None
    rest = 1.0 - share
    return max(0.0, (ratio.median - rest) / (inflation - rest))


def _share(row: Row) -> float | None:
    """The largest share of a product's edges in tiles; None for records without these facts."""
    tiles = row.record["facts"].get("tiles")
    return None if tiles is None else max(tiles.values(), default=0.0)


def _hits(row: Row) -> float | None:
    return row.median("cache", "hit_rate")
