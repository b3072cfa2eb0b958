"""Content on the origin of numbers: settings, notes on rows, commands and records of a table, environments."""

from collections.abc import Mapping, Sequence
from typing import Any

from harness.report import bounds
from harness.report.commandline import command, overrides, removed_options
from harness.report.comparisons import Comparison, DatasetComparisons
from harness.report.content import (
    Block,
    Bullets,
    Code,
    Column,
    Commands,
    Details,
    Hyperlink,
    Section,
    Span,
    Table,
    bullets,
)
from harness.report.rows import Row
from harness.store.naming import flatten

GAT = ("heads", "output_heads", "slope")
WIDEST = 160


def settings(comparison: Comparison) -> str:
    """Model, training and options of the data set of a table in one line."""
    config = comparison.rows[0].record["config"]
    training = {key: value for key, value in config["training"].items() if key != "dtype" and value is not None}
    model = {key: value for key, value in config["model"].items() if config["model"]["name"] == "gat" or key not in GAT}
    values = flatten({"model": model, "training": training, "dataset": config["dataset"].get("options") or {}})
    parts = [
        f"{key.partition('.')[2] or key} {value}" for key, value in values.items() if value not in ("none", [], {})
    ]
    return ", ".join(part for part in parts if not part.startswith("name "))


def row_notes(comparison: Comparison) -> list[Block]:
    """Notes on rows: extrapolated epochs, doubtful figures, repeated samples, outliers, older records, failed seeds."""
    floor = bounds.floor_of(comparison.rows)
    noted = [(row.label, text) for row in comparison.rows if (text := _note(row, floor))]
    return bullets([f"{label}: {text}." for label, text in noted])


def _note(row: Row, floor: float | None) -> str:
    limited = [1 / record["extrapolated"] for record in row.ok if "extrapolated" in record]
    counted = {
        "disturbed samples, repeated": row.disturbed(),
        "outlying samples (modified z-score above 3.5), kept": row.outlying(),
        "older records, superseded and not pooled": row.older,
    }
    of_some = f" in {len(limited)} of {len(row.ok)} seeds" if 0 < len(limited) < len(row.ok) else ""
    notes = [f"epoch extrapolated from {min(limited):.2g} of its targets{of_some}"] if limited else []
    sampler = row.record.get("facts", {}).get("batches_by")
    notes += [f"its mini batches are made by {sampler}"] if sampler else []
    notes += [f"⚠ {doubt}" for doubt in row.doubts]
    beside = "ran out of memory beside the others and was measured alone after them: "
    of_others = "it has no ratio" if row.ratio is None else "its ratio is of processes that ran beside the others"
    notes += [beside + of_others] if row.alone else []
    notes += [f"{name}: {count}" for name, count in counted.items() if count]
    if unseen := row.record.get("parity", {}).get("not verified"):
        named = ", ".join(f"{name}={value}" for name, value in unseen.items())
        notes.append(f"the gate did not look at {named}: the engine passed it with the definition's draws")
    notes += bounds.beaten(row, floor)
    if removed := removed_options(row.record):
        notes.append(f"measured with {', '.join(removed)}, which no longer exists: the command leaves it out")
    bad = [record for _, record in row.cells if record["status"] != "ok"]
    notes += [f"seed {record['config']['seed']} ended as {record['status']}" for record in bad if row.ok]
    return "; ".join(notes)


def records(comparison: Comparison, current: bool = True) -> Details:
    """The commands that measure a table again, and its records; no commands for those of an older protocol."""
    items = [_records_of(row) for row in comparison.rows]
    if not current:
        return Details("The records", [Bullets(items)])
    return Details("Measure it again; the records", [Commands(commands(comparison)), Bullets(items)])


def _records_of(row: Row) -> list[Span]:
    written = (row.record.get("written") or "")[:10]
    text: list[Span] = [f"{row.label}, {written}, environment ", Code(row.record["environment"]), ", seed "]
    for place, (path, record) in enumerate(row.cells):
        text += [", "] * bool(place) + [Hyperlink(str(record["config"]["seed"]), record=path)]
    return text


def commands(comparison: Comparison) -> list[str]:
    """Commands that measure a table again: rows that differ in the backend only in one, as ratios need one group."""
    gathered: dict[tuple[str, ...], list[Row]] = {}
    for row in comparison.rows:
        shared = tuple(text for text in overrides(row.record) if not text.startswith("backend="))
        gathered.setdefault(shared, []).append(row)
    lines = []
    for shared, rows in gathered.items():
        seeds = {record["config"]["seed"] for row in rows for _, record in row.cells}
        lines.append(command((row.record["config"]["backend"]["name"] for row in rows), shared, seeds))
    return lines


def environments_of(datasets: Sequence[DatasetComparisons], environments: Mapping[str, Mapping[str, Any]]) -> Section:
    """The environments of the records that these tables cite."""
    cited = {record["environment"] for dataset in datasets for row in dataset.rows for _, record in row.cells}
    return Section("Environments", [_environment(name, environments[name]) for name in sorted(cited)])


def _environment(name: str, values: Mapping[str, Any]) -> Details:
    """The environment's table; the digests of its many modules stay in its file."""
    heads = [Column("key", align="left"), Column("value", align="left")]
    values = {key: value for key, value in values.items() if key != "modules"}
    rows = [[key, " ".join(str(value).split())[:WIDEST]] for key, value in sorted(flatten(values).items())]
    return Details([Code(name)], [Table(heads, rows)])
