"""Speed-up of our fastest engine over the fastest peer of each comparison in which both were measured in turns."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from datasets.hashes import digest
from harness.report import formats
from harness.report.comparisons import Comparison, DatasetComparisons, workload
from harness.report.content import NOTHING, Cell, Table, Value, columns
from harness.report.rows import Row, ratio_of
from harness.report.scopes import one_scope
from harness.store.shape import FAR
from harness.store.statistics import Summary, geometric_mean

NONE_IN_TURNS = "No engine of ours was measured in turns with a peer on this machine."
MEANS = ("tables", "geometric mean", "lowest", "highest")


@dataclass
class Speedup:
    """Our fastest row of a comparison and the row of the fastest peer.

    ``fastest_library`` is the fastest peer with a library for graphs, ``fastest_plain_torch`` the fastest form of plain
    torch, as far as they were measured in turns with ours.
    """

    dataset: DatasetComparisons
    comparison: Comparison
    ours: Row
    peer: Row

    @property
    def factor(self) -> float:
        """How many times as fast as the fastest peer, median over median inside their groups."""
        return 1.0 / self.ours.ratio.median if self.ours.ratio else 1.0

    @property
    def slower(self) -> bool:
        """Whether the interval of the ratio leaves out 1 and the peer is faster."""
        return self.ours.ratio is not None and self.ours.ratio.low > 1

    @property
    def fastest_library(self) -> Row | None:
        """The fastest peer that is a library for graphs."""
        return self._fastest(lambda row: row.uses_library)

    @property
    def fastest_plain_torch(self) -> Row | None:
        """The fastest form of plain torch."""
        return self._fastest(lambda row: row.peer and not row.uses_library)

    def _fastest(self, accepts: Callable[[Row], bool]) -> Row | None:
        rows = (row for row in self.comparison.rows if row.ok and accepts(row) and row.dtype == self.ours.dtype)
        return next((row for row in rows if times_as_fast(self.ours, row) is not None), None)

    def beside(self, row: Row | None, factor: float = 1.0) -> list[Cell]:
        """A peer's time in units of 1 / ``factor`` s, its label with doubts, and how many times as fast ours is."""
        if row is None or row.time is None:
            return [NOTHING] * 3
        label = row.label + formats.doubtful(row)
        return [Value(row.time.median * factor, "{:.4g}"), label, formats.times(times_as_fast(self.ours, row))]

    @property
    def contest(self) -> str:
        """What speaks against the comparison, to stand behind a figure; nothing for a good one."""
        return formats.marked(contest(self.ours, self.peer, self.comparison.rows))

    @property
    def doubts(self) -> str:
        """Why the factor is no headline, as of ``why_no_headline``; empty for a good one."""
        return why_no_headline(self.ours, self.peer, self.comparison.rows)


def why_no_headline(ours: Row, peer: Row, rows: Sequence[Row]) -> str:
    """Why ours beside the fastest peer of a table is no headline; empty for a good figure.

    Either side is in doubt, few processes stand behind the ratio, only one side timed whole epochs, or another peer may
    be the fastest.
    """
    doubtful = [row for row in (ours, peer) if row.doubts]
    reasons = [f"{row.label}: {', '.join(doubt.name for doubt in row.doubts)}" for row in doubtful]
    others = formats.too_few(ours.ratio), contest(ours, peer, rows)
    return ", ".join([*reasons, *filter(None, others)])


def contest(row: Row, peer: Row, rows: Sequence[Row]) -> str:
    """Say what speaks against a row beside the fastest peer: one alone timed whole epochs, or others may be faster.

    These are the peers that may be ``FAR`` times as fast as the fastest one, by the interval of their ratio. With up to
    eight processes one of them is enough for that. A process can be slowed by chance, but hardly made faster: the
    medians of such a run do not tell which is faster.
    """
    others = [other for other in rows if other.peer and other is not peer and other.dtype == peer.dtype]
    ratios = [(other.label, ratio_of(other, peer)) for other in others]
    faster = [label for label, ratio in ratios if ratio is not None and ratio.low < 1 / FAR]
    uneven = "extrapolated beside whole epochs" if row.timed_otherwise(peer) else ""
    return ", ".join(filter(None, [uneven, f"{', '.join(faster)} may be faster" if faster else ""]))


def strictness(speedup: Speedup) -> tuple[bool, float]:
    """The smallest counts: a doubtful figure after all good ones, then by the factor."""
    return bool(speedup.doubts), speedup.factor


def speedups(
    datasets: Iterable[DatasetComparisons], key: Callable[[Speedup], tuple[Any, ...]] = strictness
) -> Iterator[Speedup]:
    """Yield one per comparison that ranks, in which an engine of ours and a peer were measured in the same group.

    Of several comparisons of one timed call, that with the smallest ``key``: the one with the fastest form of a peer,
    as a suite for scores may have peers as their examples run them; a doubtful one only where all are. Raises
    ValueError for data sets of several machines or protocols, whose speed-ups have no common mean.
    """
    strictest: dict[str, Speedup] = {}
    for dataset in one_scope(list(datasets)):
        for comparison in (one for one in dataset.comparisons if one.ranks):
            ours = fastest_of_ours(comparison.rows)
            peer = next((row for row in comparison.rows if ours and row.label == ours.ratio_to), None)
            if ours is None or peer is None:
                continue
            speedup = Speedup(dataset, comparison, ours, peer)
            timed = digest(workload(ours.record["config"]))
            if timed not in strictest or key(speedup) < key(strictest[timed]):
                strictest[timed] = speedup
    yield from strictest.values()


def times_as_fast(ours: Row, other: Row) -> Summary | None:
    """How many times as fast a row is as another, median over median inside their groups; None without a common one."""
    return ratio_of(other, ours)


def fastest_of_ours(rows: Sequence[Row]) -> Row | None:
    """Our fastest row that was timed in turns with a peer; rows are sorted by time."""
    return next((row for row in rows if row.ours and row.ok and row.timed and row.ratio is not None), None)


def mean_speedups(gathered: Mapping[str, Sequence[Speedup]], slower: bool = False) -> Table:
    """Geometric mean, lowest and highest factor of each row, without doubtful figures, which a last column names.

    With ``slower`` a column counts those beyond doubt below 1.
    """
    rows: list[list[Cell]] = []
    for name, measured in gathered.items():
        good = [one for one in measured if not one.doubts]
        values = [one.factor for one in good]
        ends = (geometric_mean(values), min(values), max(values)) if values else (None, None, None)
        below = [str(sum(one.slower for one in good))] * slower
        rows.append([name, str(len(values)), *[Value(value, "{:.3g}x") for value in ends], *below, left_out(measured)])
    return Table(columns("", *MEANS, *["slower than a peer"] * slower, "left out"), rows)


def left_out(measured: Iterable[Speedup]) -> str:
    """The speed-ups that are no headline, each with the reason; a dash where there is none."""
    doubtful = [f"{one.dataset.name}, {short_title(one.comparison)} ({one.doubts})" for one in measured if one.doubts]
    return f"{len(doubtful)}: {'; '.join(doubtful)}" if doubtful else NOTHING


def peer_heads(unit: str) -> tuple[str | tuple[str, str], ...]:
    """Titles of the columns that ``Speedup.beside`` fills, for the fastest library and for plain torch."""
    times = "times as fast"
    return ("fastest library", unit), "which", times, ("fastest plain torch", unit), "which one", f"{times} as that"


def overview(datasets: Iterable[DatasetComparisons]) -> Table:
    """One row per comparison: our best form, the fastest library and the fastest plain torch, and both scores."""
    heads = ("", "ours", ("time", "s"), *peer_heads("s"), "our score", "the fastest peer's")
    return Table(columns(*heads), [_overview_row(speedup) for speedup in speedups(datasets)])


def _overview_row(speedup: Speedup) -> list[Cell]:
    label = speedup.ours.label + formats.doubtful(speedup.ours)
    ours: list[Cell] = [label + speedup.contest, Value(speedup.ours.time.median if speedup.ours.time else None)]
    peers: list[Cell] = [*speedup.beside(speedup.fastest_library), *speedup.beside(speedup.fastest_plain_torch)]
    scores: list[Cell] = [formats.mean(row.values("metrics", "test")) for row in (speedup.ours, speedup.peer)]
    name = f"{speedup.dataset.name}: {short_title(speedup.comparison)}"
    return [name, *ours, *peers, *scores]


def short_title(comparison: Comparison) -> str:
    """A comparison's title without device and threads, and without the scenario where that is training."""
    return ", ".join(part for part in comparison.title.split(", ")[:-2] if part != "train")
