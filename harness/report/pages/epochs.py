"""Page of full-batch epochs: ours beside the fastest peer, the time of the dense layers alone, and the memory."""

from collections.abc import Iterable, Sequence

from harness.report import formats
from harness.report.comparisons import Comparison, DatasetComparisons
from harness.report.content import Bullets, Cell, Hyperlink, Page, Paragraph, Section, Table, Text, Value, columns, term
from harness.report.rows import Row
from harness.report.speedups import Speedup, fastest_of_ours, mean_speedups, short_title, speedups

HEADS = (
    *("", ("ours", "ms"), ("fastest peer", "ms"), "which", "times as fast", ("dense floor", "ms")),
    *("ours / floor", "peer / floor", "our memory", "DGL's", "ours / DGL's"),
)
LEGEND = {
    "times as fast": "the peer's epoch divided by ours, inside groups; below 1 the peer is faster",
    "dense floor": "forward, loss and backward of the same layers in plain torch with our loss where each node is its "
    "own only neighbour, measured in the same processes; attention is 1, nothing is dropped, no optimizer steps. An "
    "engine that fuses its dense layers can be below it",
    "memory": "peak above what was resident just before the watched epoch; of DGL the row with the least",
}


def epochs_page(datasets: Sequence[DatasetComparisons]) -> Page:
    """Means per data set and model, then a table per data set."""
    intro: Text = [
        "One optimization epoch over the whole training graph, by model and depth: our fastest engine beside the "
        "fastest form of any peer that was measured in turns with it, in either allocator. All rows with their "
        "intervals, phases and records are in ",
        Hyperlink(page="comparison"),
        ".",
    ]
    legend = Bullets([term(word, meaning) for word, meaning in LEGEND.items()])
    sections = [Section(f"{dataset.name} on {dataset.machine}", [table(dataset)]) for dataset in datasets]
    return Page("epochs", "Full-batch epochs", [Paragraph(intro), means(datasets), legend, *sections])


def full_batches(datasets: Iterable[DatasetComparisons]) -> list[DatasetComparisons]:
    """The data sets on which a full-batch epoch of ours was measured beside a peer's."""
    selected = [
        DatasetComparisons(dataset.name, dataset.machine, _full_batch(dataset), dataset.figure) for dataset in datasets
    ]
    return [dataset for dataset in selected if dataset.comparisons]


def _full_batch(dataset: DatasetComparisons) -> list[Comparison]:
    return [one for one in dataset.comparisons if one.scenario == "train" and fastest_of_ours(one.rows) and _whole(one)]


def _whole(comparison: Comparison) -> bool:
    return comparison.rows[0].record["config"]["training"].get("batch_size") is None


def means(datasets: Iterable[DatasetComparisons]) -> Table:
    """Geometric mean of our speed in units of the fastest peer's, per data set and model."""
    gathered: dict[str, list[Speedup]] = {}
    for one in speedups(datasets):
        gathered.setdefault(f"{one.dataset.name}, {one.comparison.title.split(',')[0]}", []).append(one)
    return mean_speedups(gathered)


def table(dataset: DatasetComparisons) -> Table:
    """One row per model and depth."""
    return Table(columns(*HEADS), [_row(speedup) for speedup in speedups([dataset])])


def _row(speedup: Speedup) -> list[Cell]:
    ours, peer, comparison = speedup.ours, speedup.peer, speedup.comparison
    floors = [floor for row in comparison.rows if (floor := row.median("limits", "dense_floor")) is not None]
    floor = min(floors, default=None)
    times = [row.time.median if row.time else None for row in (ours, peer)]
    return [
        f"{short_title(comparison).replace(', full batch', '')} ({ours.label})",
        *[Value(None if time is None else time * 1e3, "{:.4g}") for time in times],
        peer.label,
        Value(speedup.factor, "{:.3g}x"),
        Value(None if floor is None else floor * 1e3, "{:.4g}"),
        *[Value(time / floor if time and floor else None, "{:.2f}") for time in times],
        *_memories(ours, comparison.rows),
    ]


def _memories(ours: Row, rows: Sequence[Row]) -> list[Cell]:
    """Peak above the memory resident just before the epoch, ours and the least of DGL's rows, and their ratio."""
    our_peak = _above_resident(ours)
    others = [row for row in rows if row.record["config"]["backend"]["name"] == "dgl"]
    least = min((value for row in others if (value := _above_resident(row)) is not None), default=None)
    share = our_peak / least if our_peak is not None and least else None
    return [formats.memory(our_peak), formats.memory(least), Value(share, "{:.2f}")]


def _above_resident(row: Row) -> float | None:
    """Peak above the memory resident before the call; None in old records, whose base was taken after preparation."""
    known = row.median("memory", "resident") is not None
    return row.median("memory", "peak_minus_resident") if known else None
