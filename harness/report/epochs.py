"""What the page of full-batch epochs says: ours beside the fastest peer, the dense floor and the memory."""

from collections.abc import Iterable, Sequence

from harness.report import tables
from harness.report.parts import Comparison, DatasetPart
from harness.report.rows import Row
from harness.report.versus import Versus, mean_speedups, ours_of, short, versus

HEAD = ("ours [ms]", "fastest peer [ms]", "which", "times as fast", "dense floor [ms]", "ours / floor", "peer / floor")
MEMORY = ("our memory", "DGL's", "ours / DGL's")


def full_batches(parts: Iterable[DatasetPart]) -> list[DatasetPart]:
    """The data sets on which a full-batch epoch of ours was measured beside a peer's."""
    held = [DatasetPart(part.name, part.machine, _kept(part), part.figure) for part in parts]
    return [part for part in held if part.comparisons]


def _kept(part: DatasetPart) -> list[Comparison]:
    return [held for held in part.comparisons if held.scenario == "train" and ours_of(held.rows) and _full(held)]


def _full(comparison: Comparison) -> bool:
    return comparison.rows[0].record["config"]["training"].get("batch_size") is None


def table(part: DatasetPart) -> str:
    """One line per model and depth."""
    return tables.markdown(["", *HEAD, *MEMORY], [_line(held) for held in versus([part])])


def _line(held: Versus) -> list[str]:
    ours, peer, comparison = held.ours, held.peer, held.comparison
    floors = [floor for row in comparison.rows if (floor := row.middle("limits", "dense_floor")) is not None]
    floor = min(floors, default=None)
    times = [row.time.median if row.time else None for row in (ours, peer)]
    return [
        f"{short(comparison).replace(', full batch', '')} ({ours.label})",
        *[tables.number(None if time is None else time * 1e3, "{:.4g}") for time in times],
        peer.label,
        f"{held.speedup:.3g}x",
        tables.number(None if floor is None else floor * 1e3, "{:.4g}"),
        *[tables.number(time / floor if time and floor else None, "{:.2f}") for time in times],
        *_memories(ours, comparison.rows),
    ]


def _memories(ours: Row, rows: Sequence[Row]) -> list[str]:
    """Peak above what was resident just before the watched epoch, ours and that of DGL where it is least."""
    mine = _above(ours)
    others = [row for row in rows if row.record["config"]["backend"]["name"] == "dgl"]
    least = min((value for row in others if (value := _above(row)) is not None), default=None)
    share = mine / least if mine is not None and least else None
    return [tables.memory(mine), tables.memory(least), tables.number(share, "{:.2f}")]


def _above(row: Row) -> float | None:
    """None for records that do not tell what was resident just before: after preparing, all may be there already."""
    known = row.middle("memory", "resident") is not None
    return row.middle("memory", "peak_minus_resident") if known else None


def means(parts: Iterable[DatasetPart]) -> str:
    """Geometric mean of our speed in units of the fastest peer's, per data set and model."""
    speedups: dict[str, list[float]] = {}
    for held in versus(parts):
        speedups.setdefault(f"{held.part.name}, {held.comparison.title.split(',')[0]}", []).append(held.speedup)
    return mean_speedups(speedups)
