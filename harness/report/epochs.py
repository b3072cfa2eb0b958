"""What the page of full-batch epochs says: ours beside the fastest peer, the dense floor and the memory."""

from collections.abc import Iterable, Sequence

from harness.report import tables
from harness.report.parts import Comparison, DatasetPart
from harness.report.rows import Row
from harness.statistics import geometric_mean

HEAD = ("ours [ms]", "fastest peer [ms]", "which", "times as fast", "dense floor [ms]", "ours / floor", "peer / floor")
MEMORY = ("our memory", "DGL's", "ours / DGL's")


def full_batches(parts: Iterable[DatasetPart]) -> list[DatasetPart]:
    """The data sets on which a full-batch epoch of ours was measured beside a peer's."""
    held = [DatasetPart(part.name, part.machine, _kept(part), part.figure) for part in parts]
    return [part for part in held if part.comparisons]


def _kept(part: DatasetPart) -> list[Comparison]:
    return [held for held in part.comparisons if held.scenario == "train" and _ours(held.rows) and _full(held)]


def _full(comparison: Comparison) -> bool:
    return comparison.rows[0].record["config"]["training"].get("batch_size") is None


def _ours(rows: Sequence[Row]) -> Row | None:
    """Our fastest row that was measured in turns with a peer."""
    return next((row for row in rows if not row.peer and row.ok and row.ratio is not None), None)


def table(part: DatasetPart) -> str:
    """One line per model and depth."""
    return tables.markdown(["", *HEAD, *MEMORY], [_line(comparison) for comparison in part.comparisons])


def _line(comparison: Comparison) -> list[str]:
    ours = _ours(comparison.rows)
    assert ours is not None and ours.ratio is not None and ours.time is not None
    peer = next((row for row in comparison.rows if row.label == ours.ratio_to), None)
    floors = [floor for row in comparison.rows if (floor := row.middle("limits", "dense_floor")) is not None]
    floor = min(floors, default=None)
    times = [ours.time.median, peer.time.median if peer and peer.time else None]
    return [
        _name(comparison, ours),
        *[tables.number(None if time is None else time * 1e3, "{:.4g}") for time in times],
        ours.ratio_to,
        f"{1 / ours.ratio.median:.3g}x",
        tables.number(None if floor is None else floor * 1e3, "{:.4g}"),
        *[tables.number(time / floor if time and floor else None, "{:.2f}") for time in times],
        *_memories(ours, comparison.rows),
    ]


def _name(comparison: Comparison, ours: Row) -> str:
    model, _, *rest = comparison.title.split(", ")
    depth = next((text for text in rest if "layer" in text), "")
    return f"{model}, {depth} ({ours.label})"


def _memories(ours: Row, rows: Sequence[Row]) -> list[str]:
    """Peak above what was resident after preparing, ours and that of DGL where it is least."""
    mine = ours.middle("memory", "peak_minus_resident")
    others = [row for row in rows if row.record["config"]["backend"]["name"] == "dgl"]
    held = [value for row in others if (value := row.middle("memory", "peak_minus_resident")) is not None]
    least = min(held, default=None)
    share = mine / least if mine is not None and least else None
    return [tables.memory(mine), tables.memory(least), tables.number(share, "{:.2f}")]


def means(parts: Iterable[DatasetPart]) -> str:
    """Geometric mean of our speed in units of the fastest peer's, per data set and model."""
    held: dict[str, list[float]] = {}
    for part in parts:
        for comparison in part.comparisons:
            ours = _ours(comparison.rows)
            if ours is not None and ours.ratio is not None:
                name = f"{part.name}, {comparison.title.split(',')[0]}"
                held.setdefault(name, []).append(1 / ours.ratio.median)
    lines = [
        [name, str(len(values)), *[f"{value:.3g}x" for value in (geometric_mean(values), min(values), max(values))]]
        for name, values in held.items()
    ]
    return tables.markdown(["", "tables", "geometric mean", "lowest", "highest"], lines)
