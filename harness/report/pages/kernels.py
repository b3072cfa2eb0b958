"""Pages of one aggregation: our kernels beside every form of the peers, as fractions of this machine's ceiling."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from harness.report import bounds, figures, formats
from harness.report.comparisons import Comparison, DatasetComparisons
from harness.report.content import (
    NOTHING,
    Block,
    Bullets,
    Cell,
    Code,
    Figure,
    Hyperlink,
    Page,
    Paragraph,
    Section,
    Table,
    Text,
    Value,
    columns,
    term,
)
from harness.report.forms import forms_tried
from harness.report.pages import datasets as data
from harness.report.pages import provenance
from harness.report.rows import Row
from harness.report.scopes import on_each_machine
from harness.report.speedups import NONE_IN_TURNS, Speedup, mean_speedups, peer_heads, speedups

NAME, TITLE = "kernels", "One aggregation"
LARGE = 1_000_000
NEAR = 0.75
KINDS = {False: "spmm (gcn, sage)", True: "gat"}
PHASES = ("forward", "backward")
HEADS = ("ratio to fastest peer", "GB/s", "xNR", "of the ceiling", "of the limit", "hit rate", "memory")
LEGEND = {
    **formats.TIMES,
    "ratio to fastest peer": "time divided by that of the fastest peer (★). Below 1 is faster; in brackets its "
    "interval over pairs of processes, with ~ where that contains 1",
    "GB/s": "bytes of the streams and of a row for every edge, as if there were no caches, divided by the time",
    "xNR": "the same divided by this machine's stream bandwidth; only caches bring it above 1",
    "of the ceiling": "least time divided by the time. The least time is the larger of two, per product: moving "
    "indices, each used source row and the output once at the fastest stream of that size; and reading the rows in the "
    "order of the edges with deep prefetch, without the matrix and without stores, between reads of as many other "
    "bytes as the call moves between two uses of the table. For gat it covers the two gathers of rows, not the "
    "exponentials",
    "of the limit": "the first of the two times alone, which assumes that caches hold every row that is used twice",
    "hit rate": "modelled share of the gathers' cache line accesses that were not served by DRAM",
    "memory": "peak of the process with interpreter, graph and operands",
    "dgl": "copy_u_sum scales rows before and after the sum; u_mul_e_sum has gcn's weights on the edges",
    "pyg": "scatter is PyG's default path, edge_index its sorted form, csr calls torch.sparse",
    "reference": "plain torch: csr and reduce are torch.sparse.mm with autograd's own backward, cached and "
    "reduce_cached keep the transpose (gat: products, sampled products and segment sums, with a backward of its own), "
    "scatter gathers along the edges, scipy runs on one thread",
    "✗, ≠, ∅, —": "✗ ended badly, ≠ failed the parity gate, ∅ not possible or not installed here, — not measured. "
    "Every row passed the parity gate before it was timed, but those marked as unchecked",
}


class AggregationSpeedup(Speedup):
    """Speed-up of one aggregation."""

    @property
    def name(self) -> str:
        """Data set, model, width and order."""
        return f"{self.dataset.name}, {', '.join(self.comparison.title.split(', ')[:-2]).replace(', spmm', '')}"

    @property
    def attention(self) -> bool:
        """Whether it is gat's aggregation."""
        return bool(self.ours.record["config"]["model"]["name"] == "gat")

    @property
    def large(self) -> bool:
        """Whether the matrix has more than a million edges."""
        return max((item["nnz"] for item in self.ours.record.get("facts", {}).get("spmm", ())), default=0) > LARGE


def kernels_pages(
    datasets: Sequence[DatasetComparisons], environments: Mapping[str, Mapping[str, Any]]
) -> Iterator[Page]:
    """Means, overview and the large matrices far from the ceiling, then a page for each data set and machine."""
    yield _summary(datasets)
    for dataset in datasets:
        reading: Text = ["The means over all data sets, and how to read the tables: ", Hyperlink(page=NAME), "."]
        content = [Paragraph(reading), *_dataset(dataset), provenance.environments_of([dataset], environments)]
        yield Page(data.tables_page(NAME, dataset), data.tables_title(TITLE, dataset), content)


def _summary(datasets: Sequence[DatasetComparisons]) -> Page:
    intro: Text = [
        *(
            "The aggregation of a layer over its edges, alone, forward and backward: ",
            Code("gcn"),
            " is a weighted sum ",
        ),
        *("over in-edges, ", Code("sage"), " a mean, ", Code("gat"), " the softmax of given scores and the weighted "),
        "sum. All engines get the same matrix in the same order and the same operands; each form of a peer is a "
        "row of a data set's page.",
    ]
    reading = (
        "How many times as fast our engine is as the fastest form of any peer in the same group (median over median, "
        "measured in turns); below 1 a peer is faster, ~ where the interval contains 1. Below, the "
        "fastest library (PyG, DGL) and the fastest that plain torch can do stand apart."
    )
    tried: Text = [
        "Optimizations of the kernels that were tried, and their effect: ",
        Hyperlink("backends/kernels/README.md", source="backends/kernels/README.md"),
        ".",
    ]
    content: list[Block] = [
        Paragraph(intro),
        Section("Ours against the fastest peer", [Paragraph(reading), *on_each_machine(datasets, _speedups)]),
        *on_each_machine(datasets, _below),
        Paragraph(tried),
        Section("How to read it", [Bullets([term(word, meaning) for word, meaning in LEGEND.items()])]),
        Section("The tables", [data.tables_list(NAME, datasets)]),
    ]
    return Page(NAME, TITLE, content)


def means_and_figure(datasets: Sequence[DatasetComparisons], suffix: str) -> list[Block]:
    """The means of one machine and their figure, whose name ends with ``suffix``."""
    if not aggregations(datasets):
        return [Paragraph(NONE_IN_TURNS)]
    return [means(datasets), figure(datasets, suffix)]


def _speedups(datasets: Sequence[DatasetComparisons], suffix: str) -> list[Block]:
    rows = overview(datasets)
    return [*means_and_figure(datasets, suffix), *([rows] if rows.rows else [])]


def aggregations(datasets: Iterable[DatasetComparisons]) -> list[AggregationSpeedup]:
    """One per comparison in which one of our engines and a peer were measured in turns."""
    return [AggregationSpeedup(one.dataset, one.comparison, one.ours, one.peer) for one in speedups(datasets)]


def means(datasets: Iterable[DatasetComparisons]) -> Table:
    """Geometric means of our speed in units of the fastest peer's, large and small matrices apart."""
    measured, gathered = aggregations(datasets), dict[str, list[AggregationSpeedup]]()
    for attention, kind in KINDS.items():
        for large, size in ((True, "nnz > 10^6"), (False, "nnz ≤ 10^6")):
            of_kind = [one for one in measured if (one.attention, one.large) == (attention, large)]
            gathered |= {f"{kind}, {size}": of_kind} if of_kind else {}
    return mean_speedups(gathered, slower=True)


def figure(datasets: Iterable[DatasetComparisons], suffix: str) -> Figure:
    """Speed-up of every comparison, by data set; the name of its file ends with ``suffix``."""
    title = "How many times as fast as the fastest peer"
    return Figure(title, f"speedups{suffix}.svg", aggregations(datasets), figures.draw_speedups)


def overview(datasets: Iterable[DatasetComparisons]) -> Table:
    """One row per comparison: our time, the fastest library and plain torch, how close to the machine."""
    heads = ("", ("ours", "ms"), *peer_heads("ms"), "xNR", "of the ceiling")
    return Table(columns(*heads), [_overview_row(one) for one in aggregations(datasets)])


def _overview_row(speedup: AggregationSpeedup) -> list[Cell]:
    return [
        f"{speedup.name}{'' if speedup.large else ' (small)'}{formats.doubtful(speedup.ours)}{speedup.contest}",
        Value(speedup.ours.time.median * 1e3 if speedup.ours.time else None),
        *speedup.beside(speedup.fastest_library, 1e3),
        *speedup.beside(speedup.fastest_plain_torch, 1e3),
        Value(speedup.ours.median("limits", "xnr")),
        bounds.share(speedup.ours, "ceiling"),
    ]


def results(rows: Sequence[Row]) -> Table:
    """The table of one graph and width: every form of every engine."""
    unit, factor = formats.unit_of(rows)
    heads = columns("engine", ("time", unit), *[(name, unit) for name in PHASES], *HEADS, "n", ("first call", unit))
    return Table(heads, [_result(row, factor) for row in rows])


def _result(row: Row, factor: float) -> list[Cell]:
    if row.time is None:
        return [row.label, formats.status(row), *[NOTHING] * (2 + len(PHASES) + len(HEADS))]
    phases, moved = row.phases(), row.median("limits", "bytes_worst")
    return [
        f"{row.label}{' ★' if row.fastest_peer else ''}",
        formats.measured(row.time, factor) + formats.doubtful(row),
        *[Value(phases[name] * factor if name in phases else None) for name in PHASES],
        formats.ratio(row),
        Value(moved / row.time.median / 1e9 if moved else None),
        Value(row.median("limits", "xnr")),
        *[bounds.share(row, name) for name in ("ceiling", "limit")],
        Value(row.median("cache", "hit_rate"), "{:.1%}"),
        formats.memory(row.median("memory", "peak")),
        formats.processes(row),
        formats.first_call(row, factor),
    ]


def _below(datasets: Sequence[DatasetComparisons], suffix: str) -> list[Block]:
    lines = below_ceiling(datasets)
    remark = "Large matrices (nnz > 10^6) only; the explanations are taken from the records."
    return [Section("Below three quarters of the ceiling", [Paragraph(remark), Bullets(lines)])] if lines else []


def below_ceiling(datasets: Iterable[DatasetComparisons]) -> list[str]:
    """A sentence from the record for each large matrix on which ours stays below three quarters of the ceiling."""
    lines = []
    for one in aggregations(datasets):
        reached = one.ours.median("limits", "fraction_of_ceiling")
        if one.large and reached is not None and reached < NEAR:
            lines.append(f"{one.name}: {reached:.0%}. {_reason(one.ours)}")
    return lines


def _reason(row: Row) -> str:
    """Say from the record which bound holds, whether rows came from caches, and whether the threads were busy."""
    reached, limit = (row.median("limits", f"fraction_of_{name}") or 0.0 for name in ("ceiling", "limit"))
    bound = "reading the rows in order" if limit < reached else "the streams"
    words = [f"The bound is {bound}"]
    if (hits := row.median("cache", "hit_rate")) is not None:
        words.append(f"{hits:.0%} of the accesses to rows hit the modelled caches, the others go to memory")
    phases, threads = row.phases(), int(row.record["config"]["threads"])
    if {"forward", "backward"} <= phases.keys():
        words.append(f"backward takes {phases['backward'] / phases['forward']:.1f} times as long as forward")
    if (busy := row.busy()) is not None and busy < 0.85 * threads:
        words.append(f"only {busy:.2g} of {threads} threads were busy")
    return "; ".join(words) + "."


def _dataset(dataset: DatasetComparisons) -> list[Block]:
    return [
        data.counts(dataset),
        *data.structure(dataset),
        Figure(f"Times on {dataset.name}", dataset.figure, _typical(dataset), figures.draw_times),
        *forms_tried([dataset]),
        *[_comparison(dataset, comparison) for comparison in dataset.comparisons],
    ]


def _typical(dataset: DatasetComparisons) -> list[Comparison]:
    """Comparisons for the figure: 64 wide, one head, native order; the first where there is none."""
    typical = [one for one in dataset.comparisons if ", 64 wide, " in one.title and " order, " not in one.title]
    return [one for one in typical if not _many_heads(one)] or dataset.comparisons[:1]


def _many_heads(comparison: Comparison) -> bool:
    model = comparison.rows[0].record["config"]["model"]
    return bool(model["name"] == "gat" and model["heads"] != 1)


def _comparison(dataset: DatasetComparisons, comparison: Comparison) -> Section:
    content = [results(comparison.rows), *provenance.row_notes(comparison), provenance.records(comparison)]
    return Section(f"{dataset.name}: {comparison.title}", content)
