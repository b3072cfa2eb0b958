"""Page of full-batch epochs: ours beside the fastest peer, the time of the dense layers alone, and the memory."""

from collections.abc import Iterable, Sequence

from harness.report import bounds, formats
from harness.report.comparisons import Comparison, DatasetComparisons
from harness.report.content import (
    Block,
    Bullets,
    Cell,
    Hyperlink,
    Page,
    Paragraph,
    Section,
    Table,
    Text,
    Value,
    bullets,
    columns,
    term,
)
from harness.report.equal_losses import READING, equal_losses
from harness.report.forms import forms_tried
from harness.report.rows import Row
from harness.report.scopes import on_each_machine
from harness.report.speedups import Speedup, fastest_of_ours, mean_speedups, peer_heads, short_title, speedups

HEADS = (
    *("", ("ours", "ms"), *peer_heads("ms"), ("dense floor", "ms")),
    *("ours / floor", "peer / floor", "our memory", "DGL's", "ours / DGL's"),
)
LEGEND = {
    "times as fast": "the peer's epoch divided by ours, inside groups; below 1 the peer is faster, ~ where the "
    "interval contains 1. The fastest library (PyG or DGL) and the fastest that plain torch can do (or SciPy) stand in "
    "columns of their own; means count the faster of the two",
    "peer / floor": "of the faster of the two",
    "dense floor": "least time of the epoch's dense products alone: outputs, weights' gradients and, except in the "
    "first layer, inputs' gradients, of the rows that a labelled node depends on; the fastest of several forms, in "
    "several processes of the group. Bias, activation, loss, optimizer and aggregation are not in it",
    bounds.BEATEN: "a time below the bound: the bound is wrong there, and no share of it is shown",
    "memory": "what epochs need beyond the prepared state, kept between them or not; of DGL the row with the least",
    "⚠": formats.TIMES["⚠"],
}


def epochs_page(datasets: Sequence[DatasetComparisons]) -> Page:
    """Means per data set and model, then a table per data set."""
    intro: Text = [
        "One optimization epoch over the whole training graph, by model and depth: our fastest engine beside the "
        "fastest form of any peer that was measured in turns with it, in any allocator. All rows with their "
        "intervals, phases and records are in ",
        Hyperlink(page="comparison"),
        ".",
    ]
    legend = Bullets([term(word, meaning) for word, meaning in LEGEND.items()])
    sections = [
        Section(f"{dataset.name} on {dataset.machine}", [table(dataset), *_faults(dataset)]) for dataset in datasets
    ]
    content: list[Block] = [Paragraph(intro), *on_each_machine(datasets, means_alone), legend, *sections]
    content += [Section("How much of it is the loss", [Paragraph(READING), *on_each_machine(datasets, losses_alone)])]
    return Page("epochs", "Full-batch epochs", [*content, *forms_tried(datasets)])


def means_alone(datasets: Sequence[DatasetComparisons], suffix: str) -> list[Block]:
    """The means of one machine."""
    return [means(datasets)]


def losses_alone(datasets: Sequence[DatasetComparisons], suffix: str) -> list[Block]:
    """What the loss contributes on one machine."""
    return [equal_losses(datasets)]


def full_batches(datasets: Iterable[DatasetComparisons]) -> list[DatasetComparisons]:
    """The data sets on which a full-batch epoch of ours was measured beside a peer's."""
    selected = [
        DatasetComparisons(dataset.name, dataset.scope, _full_batch(dataset), dataset.figure) for dataset in datasets
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


def _faults(dataset: DatasetComparisons) -> list[Block]:
    pairs = [(row, one.comparison) for one in speedups([dataset]) for row in (one.ours, one.peer)]
    sentences = [(row.label, bounds.beaten(row, bounds.floor_of(comparison.rows))) for row, comparison in pairs]
    return bullets([f"{label}: {sentence}." for label, faults in sentences for sentence in faults])


def _row(speedup: Speedup) -> list[Cell]:
    ours, peer, comparison = speedup.ours, speedup.peer, speedup.comparison
    floor = bounds.floor_of(comparison.rows)
    times = [row.time.median if row.time else None for row in (ours, peer)]
    title = short_title(comparison).replace(", full batch", "")
    return [
        f"{title} ({ours.label}{formats.doubtful(ours)}{speedup.contest})",
        Value(times[0] * 1e3 if times[0] else None, "{:.4g}"),
        *speedup.beside(speedup.fastest_library, 1e3),
        *speedup.beside(speedup.fastest_plain_torch, 1e3),
        Value(None if floor is None else floor * 1e3, "{:.4g}"),
        *[bounds.multiple(time, floor) for time in times],
        *_memories(ours, comparison.rows),
    ]


def _memories(ours: Row, rows: Sequence[Row]) -> list[Cell]:
    """Memory that epochs need beyond the prepared state, ours and the least of DGL's rows, and their ratio."""
    our_peak = _working_set(ours)
    others = [row for row in rows if row.record["config"]["backend"]["name"] == "dgl"]
    least = min((value for row in others if (value := _working_set(row)) is not None), default=None)
    share = our_peak / least if our_peak is not None and least else None
    return [formats.memory(our_peak), formats.memory(least), Value(share, "{:.2f}")]


def _working_set(row: Row) -> float | None:
    """Memory that epochs need; None in old records, which lack what an engine keeps between epochs."""
    return row.median("memory", "working_set")
