"""Pages of all trainings and inferences: a summary, and for each data set and machine every engine in every form."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from harness.report import figures, formats, speedups, tables
from harness.report.comparisons import Comparison, DatasetComparisons
from harness.report.content import (
    Block,
    Bullets,
    Details,
    Figure,
    Hyperlink,
    Page,
    Paragraph,
    Section,
    Text,
    term,
)
from harness.report.pages import datasets as data
from harness.report.pages import provenance
from harness.report.scopes import on_each_machine

LEGEND = {
    **formats.TIMES,
    "ratio to fastest peer": "time divided by that of the fastest peer (★) measured in turns with it, in the same "
    "group. Below 1 is faster; ~ means that the interval contains 1. Every variant of a peer competes, in every "
    "allocator that was measured",
    "huge, stock, tcmalloc, jemalloc": "the row's allocator, where it is not the tuned one: glibc's that also asks "
    "for huge pages, glibc's as it comes, or another library's",
    "of the limit": "least possible time of the row's SpMMs and dense layers on this machine (the larger of fewest "
    "bytes at the fastest stream of their size, and of operations at the multiply-add rate), divided by the time; "
    "“bound beaten” where the time is below it: then the bound is wrong, and a note says by how much",
    "xNR": "speed divided by that of the no-reuse bound, which reads a row from DRAM for every edge; only caches bring "
    "it above 1",
    "hit rate": "modelled share of the cache line accesses of all SpMMs that were not served by DRAM (set-associative "
    "LRU with this machine's cache sizes; gathers only)",
    "test score": "mean ± standard deviation over seeds. Beside the published score stands our distance from it",
    "time to a score": "epochs to the target times the epoch time",
    "peak memory": "what the timed calls need, kept between them or not + what was resident before the first of them "
    "(interpreter, framework, graph, parameters). Records without memory.working_set "
    "count what calls leave resident, results and workspaces, in the second part, and their first part varies by as "
    "much; those without memory.resident have in the first part what exceeds the memory after preparation",
    "rest": "the part of the timed call that belongs to no phase; of what seconds are for: no operation of torch, so "
    "Python, autograd's engine and data structures. They come from one more epoch under torch's profiler",
    "✗, ≠, ∅, —, ≈": "✗ ended badly, ≠ failed the parity gate, ∅ not possible here: such rows have a message and no "
    "number. — not measured, ≈ extrapolated from a part of the batches",
    "parity gate": "every row passed it before it was timed (logits and all gradients against float64), but those "
    "marked as unchecked",
}
INTRODUCTION = (
    "Every engine in every form, by data set, model and what was timed; each data set has a page of tables on each "
    "machine. The "
    "summary has one row for each timed call of which ours and a peer were measured in turns: our fastest form beside "
    "the fastest form of any peer. Where several suites timed the same call, it shows the table with the smallest "
    "factor; a doubtful one only if all are."
)
UNRANKED = (
    "Each row's assignment is of another quality: its seconds rank nothing without the cut and the balance, which "
    "stand beside them on the pages of the suites. No mean and no headline counts them."
)
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


def comparison_pages(
    datasets: Sequence[DatasetComparisons], environments: Mapping[str, Mapping[str, Any]]
) -> Iterator[Page]:
    """Overview and summary over all tables, then a page of tables for each data set and machine."""
    yield from _pages("comparison", "Comparison", INTRODUCTION, datasets, environments)


def other_protocol_pages(
    datasets: Sequence[DatasetComparisons], environments: Mapping[str, Mapping[str, Any]], newest: int
) -> Iterator[Page]:
    """The same for all records of a protocol that is not the newest with good records."""
    protocol = datasets[0].scope.protocol
    reason = "of which no record is good" if protocol > newest else f"which protocol {newest} has superseded"
    remark = (
        f" These records were measured under protocol {protocol}, {reason}: they stay as history, and the means of "
        "other pages leave them out. "
    )
    introduction: Text = [INTRODUCTION, remark, Hyperlink(page="history"), " has every headline by date."]
    title = f"Records of protocol {protocol}"
    yield from _pages(f"protocol-{protocol}", title, introduction, datasets, environments, current=False)


def _pages(
    name: str,
    title: str,
    introduction: Text,
    datasets: Sequence[DatasetComparisons],
    environments: Mapping[str, Mapping[str, Any]],
    current: bool = True,
) -> Iterator[Page]:
    summary = Section("Summary", on_each_machine(datasets, _summary))
    entries = Section("The tables", [data.tables_list(name, datasets), _legend(datasets)])
    yield Page(name, title, [Paragraph(introduction), summary, entries])
    for dataset in datasets:
        reading: Text = ["The summary over all data sets, and how to read the tables: ", Hyperlink(page=name), "."]
        content = [Paragraph(reading), *_dataset(dataset, current), provenance.environments_of([dataset], environments)]
        yield Page(data.tables_page(name, dataset), data.tables_title(title, dataset), content)


def _summary(datasets: Sequence[DatasetComparisons], suffix: str) -> list[Block]:
    rows = [comparison.rows for dataset in datasets for comparison in dataset.comparisons if comparison.ranks]
    title = "Every form of every engine: geometric mean of its ratios to the fastest peer"
    remark = (
        "Peers that were not measured in a group with another peer have the ratio 1. Tables without a ratio (a failed "
        "cell, no peer in its group) and those in doubt (⚠ on either side, too few processes) are left out of the mean."
    )
    meaning = (
        "the peer's time divided by ours; below 1 the peer is faster, ~ where the interval contains 1. Tables in which "
        "no peer was measured in turns with us have no row, nor have those of assignments, whose quality differs"
    )
    means = tables.summary(rows)
    details = [Details(title, [means, Paragraph(remark)])] if means.rows else []
    overview = speedups.overview(datasets)
    if not overview.rows:
        return [Paragraph(speedups.NONE_IN_TURNS), *details]
    return [overview, Paragraph(term("times as fast", meaning)), *details]


def _legend(datasets: Sequence[DatasetComparisons]) -> Details:
    names = {row.record["config"]["dataset"]["name"] for dataset in datasets for row in dataset.rows}
    items = [term(word, meaning) for word, meaning in LEGEND.items()]
    items += [SYNTHETIC] * any(dataset.facts.get("synthetic") for dataset in datasets)
    items += [RECOVERED] * ("ppi_recovered" in names)
    return Details("How to read them", [Bullets(items)])


def _dataset(dataset: DatasetComparisons, current: bool) -> list[Block]:
    draw = figures.draw_times
    return [
        data.counts(dataset),
        Paragraph(_origin(dataset.facts)),
        *data.structure(dataset),
        *data.notes(dataset),
        Figure(f"Times of the timed call on {dataset.name}", dataset.figure, dataset.comparisons, draw),
        *_parts(dataset),
        *[_comparison(dataset, comparison, current) for comparison in dataset.comparisons],
    ]


def _parts(dataset: DatasetComparisons) -> list[Block]:
    with_parts = [comparison for comparison in dataset.comparisons if any(row.parts() for row in comparison.rows)]
    if not with_parts:
        return []
    title = f"What the seconds of an epoch on {dataset.name} are for"
    name = dataset.figure.replace(".svg", "-parts.svg")
    return [Figure(title, name, with_parts, figures.draw_parts)]


def _origin(facts: Mapping[str, Any]) -> str:
    content = f" The content: {data.trust(facts.get('trust'))}." if facts.get("sha256") else ""
    return f"Edges are counted as loaded: directed, without self loops.{content}"


def _comparison(dataset: DatasetComparisons, comparison: Comparison, current: bool) -> Section:
    content: list[Block] = [
        Paragraph(f"{provenance.settings(comparison)}."),
        *([] if comparison.ranks else [Paragraph(UNRANKED)]),
        tables.results(comparison.rows, comparison.published),
    ]
    if published := comparison.published:
        content.append(Paragraph(f"Published: {published.value:.3f} ({published.source})."))
    if any(row.ok for row in comparison.rows):
        content.append(Details("Where the time goes", [tables.phases(comparison.rows)]))
    if any(row.parts() for row in comparison.rows):
        content.append(Details("What an epoch's seconds are for", [tables.parts(comparison.rows)]))
    content += [*provenance.row_notes(comparison), provenance.records(comparison, current)]
    return Section(f"{dataset.name}: {comparison.title}", content)
