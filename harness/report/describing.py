"""What pages say of a table and its data set in words."""

from collections.abc import Mapping
from typing import Any

from harness.report import tables
from harness.report.commandline import command, overrides
from harness.report.parts import Comparison, DatasetPart
from harness.report.rows import Row
from harness.store.naming import flatten

COUNTS = ("nodes", "edges", "features", "classes", "train", "validation", "test", "self_loops_dropped")
GAT = ("heads", "output_heads", "slope")
TRUST = {
    "manifest": "equal to the hash in the manifest",
    "first use": "trusted on first use: no hash was at hand before, size and counts were checked",
    "local": "a local file that no manifest knows",
    "generated": "generated here from a seed",
}


def settings(comparison: Comparison) -> str:
    """Model, training and options of the data set of a table in one line."""
    config = comparison.rows[0].record["config"]
    training = {key: value for key, value in config["training"].items() if key != "dtype" and value is not None}
    model = {key: value for key, value in config["model"].items() if config["model"]["name"] == "gat" or key not in GAT}
    held = flatten({"model": model, "training": training, "dataset": config["dataset"].get("options") or {}})
    parts = [f"{key.partition('.')[2] or key} {value}" for key, value in held.items() if value not in ("none", [], {})]
    return ", ".join(part for part in parts if not part.startswith("name "))


def counts(part: DatasetPart) -> str:
    """The counts of a data set as held, beside the published ones."""
    held = next((row.record["dataset"] for row in rows_of(part) if row.record.get("dataset", {}).get("counts")), None)
    if held is None:
        return "Its counts are not known: no cell got as far as reading it."
    mine, published = held["counts"], held.get("published") or {}
    names = [name for name in COUNTS if name in mine or name in published]
    lines = [
        ["as held", *[f"{mine[name]:,}" if name in mine else tables.NOTHING for name in names]],
        ["published", *[f"{published[name]:,}" if name in published else tables.NOTHING for name in names]],
    ]
    return tables.markdown(["", *[name.replace("_", " ") for name in names]], lines)


def structure(held: Mapping[str, Any]) -> str:
    """Density, degrees and the share of edges by density of the 32 x 32 tile that holds them, in one sentence."""
    degrees = held["degrees"]
    tiles = ", ".join(f"{name} %: {share:.1%}" for name, share in held["tiles"].items())
    return (
        f"Density {held['density']:.2e}; in-degree median {degrees['median']:.0f}, mean {degrees['mean']:.1f}, largest "
        f"{degrees['max']:,.0f}, the top 1 % of nodes holds {degrees['top_1_percent']:.0%} of the edges. "
        f"Share of edges in 32 x 32 tiles of density {tiles}."
    )


def dataset(part: DatasetPart) -> dict[str, Any]:
    """What the records know of a data set; nothing but its name where no cell got as far as reading it."""
    unread = {"name": part.name, "synthetic": False, "sha256": None, "notes": []}
    return next((row.record["dataset"] for row in rows_of(part) if row.record.get("dataset")), unread)


def trust(origin: str | None) -> str:
    """Say in words why a data set's files are believed."""
    return TRUST.get(origin or "", origin or "unchecked")


def redo(comparison: Comparison) -> list[str]:
    """Commands that measure a table again: rows that differ in the backend only in one, as ratios need one group."""
    gathered: dict[tuple[str, ...], list[Row]] = {}
    for row in comparison.rows:
        rest = tuple(text for text in overrides(row.record) if not text.startswith("backend="))
        gathered.setdefault(rest, []).append(row)
    commands = []
    for rest, held in gathered.items():
        seeds = {record["config"]["seed"] for row in held for _, record in row.cells}
        commands.append(command((row.record["config"]["backend"]["name"] for row in held), rest, seeds))
    return commands


def notes(row: Row) -> str:
    """What a reader must know to trust a row, in one line; empty when there is nothing."""
    limited = row.record.get("extrapolated")
    counted = {
        "disturbed samples, repeated": row.disturbed(),
        "outlying samples (modified z-score above 3.5), kept": row.outlying(),
        "older records, superseded and not pooled": row.older,
    }
    said = [f"epoch extrapolated from 1/{limited:.3g} of its batches"] if limited else []
    maker = row.record.get("facts", {}).get("batches_by")
    said += [f"its mini batches are made by {maker}"] if maker else []
    said += [f"{what}: {count}" for what, count in counted.items() if count]
    bad = [record for _, record in row.cells if record["status"] != "ok"]
    said += [f"seed {record['config']['seed']} ended as {record['status']}" for record in bad if row.ok]
    return "; ".join(said)


def rows_of(part: DatasetPart) -> list[Row]:
    """All rows of a data set."""
    return [row for comparison in part.comparisons for row in comparison.rows]
