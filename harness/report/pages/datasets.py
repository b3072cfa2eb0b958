"""Content about a data set: its counts beside the published ones, its structure, the origin of its files."""

from harness.report.comparisons import DatasetComparisons
from harness.report.content import NOTHING, Block, Cell, Paragraph, Table, bullets, columns

COUNTS = ("nodes", "edges", "features", "classes", "train", "validation", "test", "self_loops_dropped")
STRUCTURE = {"density", "tiles", "degrees"}
DEGREES = {"median", "mean", "max", "top_1_percent"}
TRUST = {
    "manifest": "equal to the hash in the manifest",
    "first use": "trusted on first use: there was no hash to compare with, size and counts were checked",
    "local": "a local file that is in no manifest",
    "generated": "generated here from a seed",
}


def counts(dataset: DatasetComparisons) -> Block:
    """The counts of a data set as loaded, beside the published ones."""
    known = next((row.record["dataset"] for row in dataset.rows if row.record.get("dataset", {}).get("counts")), None)
    if known is None:
        return Paragraph("Its counts are unknown: no cell read it.")
    ours, published = known["counts"], known.get("published") or {}
    names = [name for name in COUNTS if name in ours or name in published]
    rows: list[list[Cell]] = [
        [title, *[f"{values[name]:,}" if name in values else NOTHING for name in names]]
        for title, values in (("as loaded", ours), ("published", published))
    ]
    return Table(columns("", *[name.replace("_", " ") for name in names]), rows)


def structure(dataset: DatasetComparisons) -> list[Block]:
    """Density, degrees and the share of edges by density of the 32 x 32 tile that holds them, where measured."""
    measured = dataset.facts.get("structure", {})
    degrees = measured.get("degrees", {})
    if not (measured.keys() >= STRUCTURE and degrees.keys() >= DEGREES):
        return []
    tiles = ", ".join(f"{name} %: {share:.1%}" for name, share in measured["tiles"].items())
    text = (
        f"Density {measured['density']:.2e}; in-degree median {degrees['median']:.0f}, mean {degrees['mean']:.1f}, "
        f"largest {degrees['max']:,.0f}, the top 1 % of nodes holds {degrees['top_1_percent']:.0%} of the edges. "
        f"Share of edges in 32 x 32 tiles of density {tiles}."
    )
    return [Paragraph(text)]


def trust(origin: str | None) -> str:
    """Say how a data set's files were checked."""
    return TRUST.get(origin or "", origin or "unchecked")


def notes(dataset: DatasetComparisons) -> list[Block]:
    """The notes of the data set's loader."""
    return bullets(dataset.facts.get("notes") or [])
