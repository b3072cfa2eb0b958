"""Page of all trainings and inferences: every engine in every form, by data set, model and what was timed."""

from collections.abc import Mapping, Sequence
from typing import Any

from harness.report import figures, speedups, tables
from harness.report.comparisons import Comparison, DatasetComparisons
from harness.report.content import (
    Block,
    Bullets,
    Code,
    Details,
    Figure,
    Link,
    Page,
    Paragraph,
    Section,
    Span,
    Strong,
    Text,
)
from harness.report.pages import datasets as data
from harness.report.pages import provenance

LEGEND: list[Text] = [
    [
        Strong("Time"),
        ": median of the medians of each process; one process is one seed. ",
        Code("[low, high]"),
        " is the 95 % bootstrap interval over ",
        Code("n"),
        " processes (n ≥ 3).\n  ",
        Code("(low … high)"),
        " is the 10th to 90th percentile of the samples *inside* the processes: with fewer than three, nothing is known of the spread between them.",
    ],
    [
        Strong("Ratio to fastest peer"),
        ": time divided by that of the fastest peer (★) that was measured in turns with it, in the same group; below 1 is faster. ",
        Code("~"),
        ": the interval holds 1.\n  Every variant of a peer competes, in both allocators where both were measured. ",
        Code("stock"),
        " is glibc's allocator as it comes, all others run with the tuned one.",
    ],
    [
        Strong("of the limit"),
        ": least time of the row's SpMMs and dense layers on this machine (best bytes at the measured stream bandwidth, operations at the measured\n  multiply-add rate) divided by the time. ",
        Strong("xNR"),
        ": speed in units of the no-reuse bound (a row from DRAM for every edge); above 1 only caches help.",
    ],
    [
        Strong("hit rate"),
        ": modelled share of the line accesses of all SpMMs that no DRAM served (set-associative LRU with this machine's cache sizes; gathers only).",
    ],
    [
        Strong("Scores"),
        ": mean ± standard deviation over seeds; beside the published number its distance. Time to it: epochs to the target times the epoch time.",
    ],
    [
        Strong("Peak memory"),
        ": peak of the process tree above what was resident just before the watched call + that part (interpreter, framework, graph, parameters, what the engine keeps between calls); in records without ",
        Code("memory.resident"),
        ", what was resident after preparing. ",
        Strong("rest"),
        ": the part of the timed call that no phase claims.",
    ],
    "✗ ended badly, ≠ failed the parity gate, ∅ not possible here; such rows have a message and no number. — means not measured. ≈ extrapolated from a part of the batches.",
    [
        "Every row passed the parity gate (logits and every gradient against float64) before it was timed, unless its record's ",
        Code("parity"),
        " says otherwise.",
    ],
]
SYNTHETIC: Text = [
    Code("synthetic"),
    ": a generated graph. Its counts and degree skew follow published ones; its times say something about that shape, its scores nothing about the real data.",
]
RECOVERED: Text = [
    Code("ppi_recovered"),
    ": structure, graph ids and splits of PPI (GraphSAGE) are complete; features and labels were joined back from partial public copies\n  (95.6 % of the nodes have features, 97.4 % labels; missing features are 0, missing labels masked). Times and memory compare fully; scores never with published PPI scores.",
]


def comparison_page(datasets: Sequence[DatasetComparisons], environments: Mapping[str, Mapping[str, Any]]) -> Page:
    """Overview and summary over all tables, then each data set with its tables."""
    content: list[Block] = [
        Paragraph(
            "Every engine in every form, by data set, model and what was timed. First a line per table: our fastest form beside the fastest form of any peer that was measured in\nturns with it, in the same group."
        ),
        _summary(datasets),
        Section("The tables", [Bullets([_entry(dataset) for dataset in datasets]), _legend(datasets)]),
        *[_dataset(dataset) for dataset in datasets],
        provenance.environments_of(datasets, environments),
    ]
    return Page("comparison", "Comparison", content)


def _summary(datasets: Sequence[DatasetComparisons]) -> Section:
    rows = [comparison.rows for dataset in datasets for comparison in dataset.comparisons]
    title = "Every form of every engine: geometric mean of its ratios to the fastest peer"
    remark = "Peers that were not measured in a group with another peer stand at 1. A table without a ratio (a failed cell, no peer in its group) does not enter the mean."
    reading: Text = [
        Strong("times as fast"),
        ": the peer's time divided by ours; below 1 the peer is faster. Tables in which no peer was measured in turns with us have no line.",
    ]
    means = Details(title, [tables.summary(rows), Paragraph(remark)])
    return Section("Summary", [speedups.overview(datasets), Paragraph(reading), means])


def _entry(dataset: DatasetComparisons) -> list[Span]:
    synthetic = " (synthetic)" if dataset.facts.get("synthetic") else ""
    link = Link(dataset.name, anchor=dataset.anchor)
    return [link, f"{synthetic} on {dataset.machine}: {len(dataset.comparisons)} tables"]


def _legend(datasets: Sequence[DatasetComparisons]) -> Details:
    names = {row.record["config"]["dataset"]["name"] for dataset in datasets for row in dataset.rows}
    items = [*LEGEND, *[SYNTHETIC] * any(dataset.facts.get("synthetic") for dataset in datasets)]
    return Details("How to read them", [Bullets([*items, *[RECOVERED] * ("ppi_recovered" in names)])])


def _dataset(dataset: DatasetComparisons) -> Section:
    facts = dataset.facts
    draw = figures.draw_times
    content: list[Block] = [
        data.counts(dataset),
        Paragraph(_origin(facts)),
        *data.structure(dataset),
        *data.notes(dataset),
        Figure(f"Times of the timed call on {dataset.name}", dataset.figure, dataset.comparisons, draw),
        *[_comparison(dataset, comparison) for comparison in dataset.comparisons],
    ]
    return Section(f"{dataset.title} on {dataset.machine}", content, dataset.anchor)


def _origin(facts: Mapping[str, Any]) -> list[Span]:
    text: list[Span] = ["Edges as held are directed, without self loops. "]
    if facts.get("sha256"):
        text += ["Content sha256 ", Code(facts["sha256"][:12]), f", {data.trust(facts.get('trust'))}."]
    return text


def _comparison(dataset: DatasetComparisons, comparison: Comparison) -> Section:
    content: list[Block] = [
        Paragraph(f"{provenance.settings(comparison)}."),
        tables.results(comparison.rows, comparison.published),
    ]
    if published := comparison.published:
        content.append(Paragraph(f"Published: {published.value:.3f} ({published.source})."))
    if any(row.ok for row in comparison.rows):
        content.append(Details("Where the time goes", [tables.phases(comparison.rows)]))
    content += [*provenance.row_notes(comparison), provenance.records(comparison)]
    return Section(f"{dataset.name}: {comparison.title}", content)
