"""Loss curves of the engine and of its ranks beside plain PyTorch's."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from harness.report.content import NOTHING, Block, Cell, Table, Value, columns
from harness.report.figures import FAINT
from harness.report.rows import Row
from harness.report.suites.records import SuiteRecords, backend, name_of

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Curve = Mapping[int, float]
REFERENCE = "plain PyTorch"


def losses(records: SuiteRecords) -> list[Block]:
    """One row per engine: first and last loss, and the distance from plain PyTorch."""
    rows: list[list[Cell]] = []
    for title, of_rows in curves(records).items():
        for label, curve in of_rows.items():
            epochs = sorted(curve)
            gap = None if label == REFERENCE else _gap(curve, of_rows)
            ends = [Value(curve[epoch], "{:.5f}") for epoch in (epochs[0], epochs[-1])]
            rows.append([f"{title}: {label}", *ends, str(epochs[-1]), NOTHING if gap is None else _distance(gap)])
    heads = columns("", "first loss", "last loss", "epochs", "largest distance")
    return [Table(heads, rows)] if rows else []


def curves(records: SuiteRecords) -> dict[str, dict[str, Curve]]:
    """Validation losses by epoch, of each comparison and row."""
    by_title: dict[str, dict[str, Curve]] = {}
    for dataset, comparison in records.comparisons("train"):
        seed = _common_seed(comparison.rows)
        of_rows = {_label(row): curve for row in comparison.rows if (curve := _losses(row, seed))}
        if of_rows:
            by_title[name_of(dataset, comparison)] = of_rows
    return by_title


def largest_gap(records: SuiteRecords) -> str:
    """Largest relative distance of any curve from plain PyTorch's."""
    gaps = [_gap(curve, of_rows) for of_rows in curves(records).values() for curve in of_rows.values()]
    known = [gap for gap in gaps if gap is not None]
    return f"within {_distance(max(known))}" if known else NOTHING


def _distance(gap: float) -> str:
    """A relative distance; records hold losses in six digits, so that of equal ones may be up to 1e-5."""
    return f"{gap:.1e}" if gap else "1.0e-05"


def draw(data: Mapping[str, Mapping[str, Curve]]) -> "Figure":
    """One panel per comparison; equal curves lie on each other."""
    from matplotlib.figure import Figure

    titles = list(data) or ["nothing was measured that could be drawn"]
    figure = Figure(figsize=(7.5, 2.9 * len(titles)), layout="constrained")
    for axes, title in zip(figure.subplots(len(titles), 1, squeeze=False)[:, 0], titles, strict=True):
        axes.set_title(title, loc="left", fontsize=9, fontweight="bold")
        axes.grid(color=FAINT, linewidth=0.6)
        for place, (label, curve) in enumerate(data.get(title, {}).items()):
            epochs = sorted(curve)
            axes.plot(epochs, [curve[epoch] for epoch in epochs], ("-", "--", ":")[place % 3], label=label)
        axes.set_xlabel("epoch")
        axes.set_ylabel("validation loss")
        axes.legend(frameon=False, fontsize=8)
    return figure


def _common_seed(rows: Sequence[Row]) -> int | None:
    """The first seed of all rows that have losses: curves of other seeds begin with other parameters."""
    seeds = [{record["config"]["seed"] for record in row.ok if record.get("validation")} for row in rows]
    common = set.intersection(*own) if (own := [known for known in seeds if known]) else set()
    return min(common, default=None)


def _losses(row: Row, seed: int | None) -> Curve:
    """The losses of the good record of a seed."""
    of_seed = (record.get("validation", ()) for record in row.ok if record["config"]["seed"] == seed)
    return {int(epoch): float(loss) for epoch, loss, _ in next(of_seed, ())}


def _label(row: Row) -> str:
    return REFERENCE if backend(row) == "reference" else row.label


def _gap(curve: Curve, of_rows: Mapping[str, Curve]) -> float | None:
    reference = of_rows.get(REFERENCE)
    if reference is None:
        return None
    return max((abs(curve[e] - reference[e]) / abs(reference[e]) for e in curve if e in reference), default=None)
