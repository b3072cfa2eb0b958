"""Speed-up of our fastest engine over the fastest peer of each comparison in which both were measured in turns."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from harness.report import formats
from harness.report.comparisons import Comparison, DatasetComparisons
from harness.report.content import NOTHING, Cell, Table, Value, columns
from harness.report.rows import Row
from harness.store.statistics import geometric_mean

MEANS = ("tables", "geometric mean", "lowest", "highest")


@dataclass
class Speedup:
    """Our fastest row of a comparison and the row of the fastest peer."""

    dataset: DatasetComparisons
    comparison: Comparison
    ours: Row
    peer: Row

    @property
    def factor(self) -> float:
        """How many times as fast as the fastest peer, median over median inside their groups."""
        return 1.0 / self.ours.ratio.median if self.ours.ratio else 1.0

    @property
    def doubts(self) -> str:
        """Why the factor is no headline: the doubtful figures of either side by name; empty for a good one."""
        doubtful = [row for row in (self.ours, self.peer) if row.doubts]
        return ", ".join(f"{row.label}: {', '.join(doubt.name for doubt in row.doubts)}" for row in doubtful)


def speedups(datasets: Iterable[DatasetComparisons]) -> Iterator[Speedup]:
    """Yield one per comparison in which an engine of ours and a peer were measured in the same group."""
    for dataset in datasets:
        for comparison in dataset.comparisons:
            ours = fastest_of_ours(comparison.rows)
            peer = next((row for row in comparison.rows if ours and row.label == ours.ratio_to), None)
            if ours is not None and peer is not None:
                yield Speedup(dataset, comparison, ours, peer)


def fastest_of_ours(rows: Sequence[Row]) -> Row | None:
    """Our fastest row that was timed in turns with a peer; rows are sorted by time."""
    return next((row for row in rows if not row.peer and row.ok and row.timed and row.ratio is not None), None)


def mean_speedups(gathered: Mapping[str, Sequence[Speedup]], slower: bool = False) -> Table:
    """Geometric mean, lowest and highest factor of each row, without doubtful figures, which a last column names.

    With ``slower`` a column counts the factors below 1.
    """
    rows: list[list[Cell]] = []
    for name, measured in gathered.items():
        values = [one.factor for one in measured if not one.doubts]
        ends = (geometric_mean(values), min(values), max(values)) if values else (None, None, None)
        below = [str(sum(value < 1 for value in values))] * slower
        rows.append([name, str(len(values)), *[Value(value, "{:.3g}x") for value in ends], *below, left_out(measured)])
    return Table(columns("", *MEANS, *["slower than a peer"] * slower, "left out"), rows)


def left_out(measured: Iterable[Speedup]) -> str:
    """The speed-ups that are no headline, each with the reason; a dash where there is none."""
    doubtful = [f"{one.dataset.name}, {short_title(one.comparison)} ({one.doubts})" for one in measured if one.doubts]
    return f"{len(doubtful)}: {'; '.join(doubtful)}" if doubtful else NOTHING


def overview(datasets: Iterable[DatasetComparisons]) -> Table:
    """One row per comparison: our best form and the fastest peer, their times, how many times as fast, both scores."""
    heads = ("", "ours", ("time", "s"), "fastest peer", ("time", "s"), "times as fast", "our score", "the peer's")
    return Table(columns(*heads), [_overview_row(speedup) for speedup in speedups(datasets)])


def _overview_row(speedup: Speedup) -> list[Cell]:
    engines: list[Cell] = []
    for row in (speedup.ours, speedup.peer):
        engines += [row.label, Value(row.time.median if row.time else None)]
    scores = [formats.mean(row.values("metrics", "test")) for row in (speedup.ours, speedup.peer)]
    name = f"{speedup.dataset.name}: {short_title(speedup.comparison)}"
    return [name, *engines, Value(speedup.factor, "{:.3g}x"), *scores]


def short_title(comparison: Comparison) -> str:
    """A comparison's title without device and threads, and without the scenario where that is training."""
    return ", ".join(part for part in comparison.title.split(", ")[:-2] if part != "train")
