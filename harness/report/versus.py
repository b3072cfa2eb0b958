"""Ours beside the fastest peer: the tables in which both were measured in turns, and what they come to."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from harness.report import tables
from harness.report.parts import Comparison, DatasetPart
from harness.report.rows import Row
from harness.store.statistics import geometric_mean

MEANS = ("tables", "geometric mean", "lowest", "highest")


@dataclass
class Versus:
    """Our fastest row of a table and the peer's that it is compared with."""

    part: DatasetPart
    comparison: Comparison
    ours: Row
    peer: Row

    @property
    def speedup(self) -> float:
        """How many times as fast as the fastest peer, median over median inside their groups."""
        return 1.0 / self.ours.ratio.median if self.ours.ratio else 1.0


def versus(parts: Iterable[DatasetPart]) -> Iterator[Versus]:
    """Yield one per table in which an engine of ours and a peer were measured in the same group."""
    for part in parts:
        for comparison in part.comparisons:
            ours = ours_of(comparison.rows)
            peer = next((row for row in comparison.rows if ours and row.label == ours.ratio_to), None)
            if ours is not None and peer is not None:
                yield Versus(part, comparison, ours, peer)


def ours_of(rows: Sequence[Row]) -> Row | None:
    """Our fastest row that was timed in turns with a peer; rows are sorted by time."""
    return next((row for row in rows if not row.peer and row.ok and row.timed and row.ratio is not None), None)


def mean_speedups(speedups: Mapping[str, Sequence[float]], beside: Mapping[str, Sequence[str]] | None = None) -> str:
    """Geometric mean, lowest and highest of the speedups of each line; ``beside`` maps column heads to more cells."""
    more = beside or {}
    lines = []
    for place, (name, values) in enumerate(speedups.items()):
        ends = [f"{value:.3g}x" for value in (geometric_mean(values), min(values), max(values))]
        lines.append([name, str(len(values)), *ends, *[cells[place] for cells in more.values()]])
    return tables.markdown(["", *MEANS, *more], lines)


def overview(parts: Iterable[DatasetPart]) -> str:
    """One line per table: our best form and the fastest peer, their times, how many times as fast, both scores."""
    head = ["", "ours", "time [s]", "fastest peer", "time [s]", "times as fast", "our score", "the peer's"]
    return tables.markdown(head, [_line(held) for held in versus(parts)])


def _line(held: Versus) -> list[str]:
    engines = []
    for row in (held.ours, held.peer):
        engines += [row.label, tables.number(row.time.median if row.time else None, "{:.3g}")]
    scores = [tables.mean(row.values("metrics", "test")) for row in (held.ours, held.peer)]
    return [f"{held.part.name}: {short(held.comparison)}", *engines, f"{held.speedup:.3g}x", *scores]


def short(comparison: Comparison) -> str:
    """A table's title without device and threads, where training is meant unless another scenario is named."""
    return ", ".join(part for part in comparison.title.split(", ")[:-2] if part != "train")
