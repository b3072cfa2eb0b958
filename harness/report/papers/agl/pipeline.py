"""Epochs with and without AGL's pipeline, by where batches are read from and by the threads that prepare them."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from harness.report import formats
from harness.report.content import Block, Cell, Paragraph, Table, Value, columns
from harness.report.rows import Row
from harness.report.speedups import times_as_fast
from harness.report.suites import factors
from harness.report.suites.records import SuiteRecords, ablations, name_of, option, seconds
from harness.store.statistics import Summary

READS = {
    ("graph", "warm"): "graph in memory",
    ("graphfeature", "warm"): "shards",
    ("graphfeature", "cold"): "cold shards",
}
GAIN = 1.05  # smaller speed-ups are noise


@dataclass(frozen=True)
class Pair:
    """An epoch without the pipeline, and with it by the number of loaders: the fastest row of each."""

    name: str
    reads: str
    threads: int
    without: Row
    overlapped: dict[int, Row]

    def gain(self) -> Summary | None:
        """How many times as fast the pipeline is with the loaders that help most, of figures beyond doubt."""
        ratios = [(row, times_as_fast(row, self.without)) for row in self.overlapped.values()]
        sound = [ratio for row, ratio in ratios if ratio is not None and factors.is_headline(ratio, row, self.without)]
        return max(sound, key=lambda ratio: ratio.median, default=None)

    def left_out(self) -> str:
        """How many figures with the pipeline are in doubt or were not measured in turns; nothing where none is."""
        return factors.factors_of(factors.RowPair(row, self.without) for row in self.overlapped.values())[1]


def pipeline(records: SuiteRecords) -> list[Block]:
    """One row per form of reading, and the numbers of threads with which the pipeline was faster."""
    pairs = [pair for dataset, one in records.comparisons() for pair in _pairs(name_of(dataset, one), one.rows)]
    if not pairs:
        return []
    loaders = sorted({count for pair in pairs for count in pair.overlapped})
    rows: list[list[Cell]] = [
        [
            *(pair.name, pair.reads, str(pair.threads), Value(seconds(pair.without))),
            *(factors.times(pair.overlapped.get(count), pair.without, "{:.3g}x") for count in loaders),
        ]
        for pair in pairs
    ]
    heads = [f"{count} loader{'s' if count > 1 else ''}" for count in loaders]
    table = Table(columns("", "batches from", "threads", ("without", "s"), *heads), rows)
    return [table, Paragraph(" ".join(_verdict(reads, pairs) for reads in READS.values() if _of(reads, pairs)))]


def _of(reads: str, pairs: Sequence[Pair]) -> list[Pair]:
    return [pair for pair in pairs if pair.reads == reads]


def _verdict(reads: str, pairs: Sequence[Pair]) -> str:
    """With how many threads the pipeline pays for a form of reading: by more than noise, in an interval above 1."""
    of_threads: dict[int, list[Summary]] = {}
    for pair in _of(reads, pairs):
        if (gain := pair.gain()) is not None:
            of_threads.setdefault(pair.threads, []).append(gain)
    best = {count: max(gains, key=lambda gain: gain.median) for count, gains in sorted(of_threads.items())}
    if not best:
        return f"With batches from {reads} no figure was measured in turns and is beyond doubt."
    paying = [count for count, gain in best.items() if gain.median > GAIN and gain.low > 1]
    gains = ", ".join(f"{formats.times(gain)} with {formats.plural(count, 'thread')}" for count, gain in best.items())
    left_out = "".join(f"; {remark}" for pair in _of(reads, pairs) if (remark := pair.left_out()))
    return f"With batches from {reads} {_outcome(paying, list(best))} (at best {gains}{left_out})."


def _outcome(paying: Sequence[int], measured: Sequence[int]) -> str:
    """Where the pipeline pays, in words, of the numbers of threads that were measured."""
    if not paying:
        return "it does not pay"
    if list(paying) == list(measured[-len(paying) :]):
        return f"it pays from {formats.plural(paying[0], 'thread')} on"
    return f"it pays with {' and '.join(formats.plural(count, 'thread') for count in paying)} alone"


def _pairs(name: str, rows: Sequence[Row]) -> Iterator[Pair]:
    """The pairs of a comparison: rows with all other ideas that read the same and differ in the pipeline."""
    ours = [row for row in rows if row.ours and row.ok and not ablations(row)]
    for (source, pages), reads in READS.items():
        same = [row for row in ours if _reads(row) == (source, pages)]
        for features in dict.fromkeys(option(row, "features") for row in same):
            form = [row for row in same if option(row, "features") == features]
            without = [row for row in form if not _overlaps(row)]
            # the fastest of several stays, as rows are sorted by time
            overlapped = {int(option(row, "loaders") or 1): row for row in reversed(form) if _overlaps(row)}
            if without and overlapped:
                threads = int(form[0].record["config"]["threads"])
                yield Pair(name, reads, threads, without[0], overlapped)


def _reads(row: Row) -> tuple[str, str]:
    return str(option(row, "source") or "graph"), str(option(row, "page_cache") or "warm")


def _overlaps(row: Row) -> bool:
    return bool(row.record.get("facts", {}).get("overlaps"))
