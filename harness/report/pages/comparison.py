"""Page of all trainings and inferences: every engine in every form, by data set, model and what was timed."""

from collections.abc import Mapping, Sequence
from typing import Any

from harness.report import figures, formats, speedups, tables
from harness.report.comparisons import Comparison, DatasetComparisons
from harness.report.content import (
    Block,
    Bullets,
    Code,
    Details,
    Figure,
    Hyperlink,
    Page,
    Paragraph,
    Section,
    Span,
    term,
)
from harness.report.pages import datasets as data
from harness.report.pages import provenance

LEGEND = {
    **formats.TIMES,
    "ratio to fastest peer": "time divided by that of the fastest peer (★) measured in turns with it, in the same "
    "group. Below 1 is faster; ~ means that the interval contains 1. Every variant of a peer competes, in both "
    "allocators where both were measured",
    "stock": "a row with glibc's default allocator; all others run with the tuned one",
    "of the limit": "least possible time of the row's SpMMs and dense layers on this machine (fewest bytes at the "
    "measured stream bandwidth, operations at the measured multiply-add rate), divided by the time",
    "xNR": "speed divided by that of the no-reuse bound, which reads a row from DRAM for every edge; only caches bring "
    "it above 1",
    "hit rate": "modelled share of the cache line accesses of all SpMMs that were not served by DRAM (set-associative "
    "LRU with this machine's cache sizes; gathers only)",
    "test score": "mean ± standard deviation over seeds. Beside the published score stands our distance from it",
    "time to a score": "epochs to the target times the epoch time",
    "peak memory": "peak of the process tree above what was resident just before the watched call + that part "
    "(interpreter, framework, graph, parameters, what the engine keeps between calls). Records without memory.resident "
    "count from what was resident after preparing",
    "rest": "the part of the timed call that belongs to no phase",
    "✗, ≠, ∅, —, ≈": "✗ ended badly, ≠ failed the parity gate, ∅ not possible here: such rows have a message and no "
    "number. — not measured, ≈ extrapolated from a part of the batches",
    "parity gate": "every row passed it before it was timed (logits and all gradients against float64), unless the "
    "record's parity says otherwise",
}
SYNTHETIC = term(
    "synthetic",
    "a generated graph. Its counts and degree skew follow published ones: its times hold for a graph of that shape, "
    "its scores say nothing about the real data",
)
RECOVERED = term(
    "ppi_recovered",
    "structure, graph ids and splits of PPI (GraphSAGE) are complete; features and labels were joined back from "
    "partial public copies (95.6 % of the nodes have features, 97.4 % labels; missing features are 0, missing labels "
    "masked). Times and memory compare fully; scores never with published PPI scores",
)


def comparison_page(datasets: Sequence[DatasetComparisons], environments: Mapping[str, Mapping[str, Any]]) -> Page:
    """Overview and summary over all tables, then each data set with its tables."""
    content: list[Block] = [
        Paragraph(
            "Every engine in every form, by data set, model and what was timed. The summary has a row per table: our "
            "fastest form beside the fastest form of any peer that was measured in turns with it, in the same group."
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
    remark = (
        "Peers that were not measured in a group with another peer have the ratio 1. Tables without a ratio (a failed "
        "cell, no peer in its group) are left out of the mean."
    )
    meaning = (
        "the peer's time divided by ours; below 1 the peer is faster. Tables in which no peer was measured in turns "
        "with us have no row"
    )
    means = Details(title, [tables.summary(rows), Paragraph(remark)])
    return Section("Summary", [speedups.overview(datasets), Paragraph(term("times as fast", meaning)), means])


def _entry(dataset: DatasetComparisons) -> list[Span]:
    synthetic = " (synthetic)" if dataset.facts.get("synthetic") else ""
    link = Hyperlink(dataset.name, anchor=dataset.anchor)
    return [link, f"{synthetic} on {dataset.machine}: {len(dataset.comparisons)} tables"]


def _legend(datasets: Sequence[DatasetComparisons]) -> Details:
    names = {row.record["config"]["dataset"]["name"] for dataset in datasets for row in dataset.rows}
    items = [term(word, meaning) for word, meaning in LEGEND.items()]
    items += [SYNTHETIC] * any(dataset.facts.get("synthetic") for dataset in datasets)
    items += [RECOVERED] * ("ppi_recovered" in names)
    return Details("How to read them", [Bullets(items)])


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
    text: list[Span] = ["Edges are counted as loaded: directed, without self loops. "]
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
