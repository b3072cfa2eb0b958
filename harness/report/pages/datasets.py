"""Content about a data set: its counts beside the published ones, its structure, the origin of its files."""

from collections.abc import Mapping, Sequence
from typing import Any

from harness.report import formats
from harness.report.comparisons import DatasetComparisons
from harness.report.content import NOTHING, Block, Bullets, Cell, Code, Hyperlink, Paragraph, Table, bullets, columns
from harness.store.naming import distinctions, flatten
from harness.store.record import Record

COUNTS = ("nodes", "edges", "features", "classes", "train", "validation", "test", "self_loops_dropped")
STRUCTURE = {"density", "tiles", "degrees"}
DEGREES = {"median", "mean", "max", "top_1_percent"}
TRUST = {
    "manifest": "equal to the hash in the manifest",
    "first use": "trusted on first use: there was no hash to compare with, size and counts were checked",
    "local": "a local file that is in no manifest",
    "generated": "generated here from a seed",
}


def tables_page(page: str, dataset: DatasetComparisons) -> str:
    """Name of the page with a data set's tables on its machine, to which ``page`` is the summary."""
    return f"{page}-{dataset.name}-{dataset.machine}"


def tables_title(title: str, dataset: DatasetComparisons) -> str:
    """Title of the page with a data set's tables on its machine; ``title`` is the summary's."""
    return f"{title}: {dataset.title} on {dataset.machine}"


def tables_list(page: str, datasets: Sequence[DatasetComparisons]) -> Bullets:
    """Links to the pages of the data sets' tables, of which ``page`` is the summary, and how many tables each has."""
    return Bullets(
        [
            [
                Hyperlink(dataset.title, tables_page(page, dataset)),
                f" on {dataset.machine}: {formats.plural(len(dataset.comparisons), 'table')}",
            ]
            for dataset in datasets
        ]
    )


def counts(dataset: DatasetComparisons) -> Block:
    """The counts of each graph that cells read, and the published ones."""
    known = _graphs(dataset)
    if not known:
        return Paragraph("Its counts are unknown: no cell read it.")
    published: Mapping[str, int] = next((facts["published"] for _, facts in known if facts.get("published")), {})
    counted: list[tuple[str, Mapping[str, int], Cell]] = [
        (", ".join(filter(None, ["as loaded", options])), facts["counts"], _hash(facts)) for options, facts in known
    ]
    counted.append(("published", published, NOTHING))
    names = [name for name in COUNTS if any(name in values for _, values, _ in counted)]
    rows: list[list[Cell]] = [
        [title, *[f"{values[name]:,}" if name in values else NOTHING for name in names], content]
        for title, values, content in counted
    ]
    return Table(columns("", *[name.replace("_", " ") for name in names], "content sha256"), rows)


def _hash(facts: Mapping[str, Any]) -> Cell:
    return Code(facts["sha256"][:12]) if facts.get("sha256") else NOTHING


def _graphs(dataset: DatasetComparisons) -> list[tuple[str, Mapping[str, Any]]]:
    """The graphs that cells read, by size: the options that tell each from the others, and its facts."""
    records = [row.record for row in dataset.rows if row.record.get("dataset", {}).get("counts")]
    records.sort(key=lambda record: "structure" not in record["dataset"])  # of one graph, a record that has it
    graphs: dict[str | None, Record] = {}
    for record in records:
        graphs.setdefault(record["dataset"].get("sha256"), record)
    options = [flatten(record["config"]["dataset"].get("options") or {}) for record in graphs.values()]
    words = distinctions([""] * len(options), options)
    named = [(", ".join(added), record["dataset"]) for added, record in zip(words, graphs.values(), strict=True)]
    return sorted(named, key=lambda graph: (graph[1]["counts"].get("nodes", 0), graph[1]["counts"].get("edges", 0)))


def structure(dataset: DatasetComparisons) -> list[Block]:
    """Density, degrees and the share of edges by density of their 32 x 32 tile, of each measured graph."""
    described = [(options, text) for options, facts in _graphs(dataset) if (text := _described(facts))]
    if len(described) == 1:
        return [Paragraph(described[0][1])]
    return bullets([f"{options or 'as loaded'}: {text}" for options, text in described])


def _described(facts: Mapping[str, Any]) -> str:
    """The structure of a graph in words; nothing where it was not measured."""
    measured = facts.get("structure", {})
    degrees = measured.get("degrees", {})
    if not (measured.keys() >= STRUCTURE and degrees.keys() >= DEGREES):
        return ""
    tiles = ", ".join(f"{name} %: {share:.1%}" for name, share in measured["tiles"].items())
    return (
        f"Density {measured['density']:.2e}; in-degree median {degrees['median']:.0f}, mean {degrees['mean']:.1f}, "
        f"largest {degrees['max']:,.0f}, the top 1 % of nodes holds {degrees['top_1_percent']:.0%} of the edges. "
        f"Share of edges in 32 x 32 tiles of density {tiles}."
    )


def trust(origin: str | None) -> str:
    """Say how a data set's files were checked."""
    return TRUST.get(origin or "", origin or "unchecked")


def notes(dataset: DatasetComparisons) -> list[Block]:
    """The notes of the data set's loader."""
    return bullets(dataset.facts.get("notes") or [])
