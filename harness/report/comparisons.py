"""Records grouped into comparisons: one table per model and scenario, by data set and machine."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from harness.report.formats import plural
from harness.report.published import Published, published_for, published_scores
from harness.report.rows import Row, rows
from harness.store.naming import flatten
from harness.store.record import StoredRecord


@dataclass
class Comparison:
    """One table: the rows of one model and scenario on one data set and machine."""

    title: str
    rows: list[Row]
    published: Published | None

    @property
    def scenario(self) -> str:
        """Name of the scenario that was timed."""
        return str(self.rows[0].record["config"]["scenario"]["name"])


@dataclass
class DatasetComparisons:
    """All comparisons on one data set and machine, and the name of their figure."""

    name: str
    machine: str
    comparisons: list[Comparison]
    figure: str

    @property
    def anchor(self) -> str:
        """Anchor of the data set's section in a page."""
        return f"{self.name}-{self.machine}"

    @property
    def rows(self) -> list[Row]:
        """The rows of all comparisons."""
        return [row for comparison in self.comparisons for row in comparison.rows]

    @property
    def facts(self) -> dict[str, Any]:
        """The key ``dataset`` of a record; little more than the name where no cell has read the data set."""
        unread = {"name": self.name, "synthetic": False, "sha256": None, "notes": []}
        return next((row.record["dataset"] for row in self.rows if row.record.get("dataset")), unread)

    @property
    def title(self) -> str:
        """Name of the data set, marked where it is generated."""
        return self.name + (" (synthetic)" if self.facts.get("synthetic") else "")


def dataset_comparisons(
    results: Path, records: Sequence[StoredRecord], environments: Mapping[str, dict[str, Any]]
) -> list[DatasetComparisons]:
    """Sort the records into data sets and comparisons."""
    scores = published_scores()
    tree: dict[tuple[str, str], dict[tuple[str, ...], list[StoredRecord]]] = {}
    for path, record in records:
        machine, dataset = path.relative_to(results).parts[:2]
        tree.setdefault((dataset, machine), {}).setdefault(_table_key(record["config"]), []).append((path, record))
    datasets = []
    for (dataset, machine), tables in sorted(tree.items()):
        comparisons = [_comparison(key, records, environments, scores) for key, records in sorted(tables.items())]
        datasets.append(DatasetComparisons(dataset, machine, comparisons, f"{dataset}-{machine}.svg"))
    return datasets


def of_scenarios(
    datasets: Sequence[DatasetComparisons], accepts: Callable[[str], bool], suffix: str = ""
) -> list[DatasetComparisons]:
    """The comparisons of the scenarios that ``accepts`` takes, with different titles; figures end with ``suffix``."""
    selected = [
        replace(
            dataset,
            comparisons=_with_different_titles([one for one in dataset.comparisons if accepts(one.scenario)]),
            figure=f"{dataset.anchor}{suffix}.svg",
        )
        for dataset in datasets
    ]
    return [dataset for dataset in selected if dataset.comparisons]


def _table_key(config: Mapping[str, Any]) -> tuple[str, ...]:
    """The settings that all rows of a table share; engine options, precision and (but in ``spmm``) order may differ.

    In ``infer`` the batch size is an engine's choice too: it changes how all nodes are scored, not which.
    """
    free = ("dtype", "batch_size") if config["scenario"]["name"] == "infer" else ("dtype",)
    training = {key: value for key, value in config["training"].items() if key not in free}
    measure = {key: value for key, value in config.get("measure", {}).items() if key != "deadline_seconds"}
    order = config.get("order", {}) if config["scenario"]["name"] == "spmm" else {}
    shared = (config["dataset"], config["model"], training, order, measure, config["scenario"].get("train_to_end"))
    texts = [json.dumps(values, sort_keys=True) for values in shared]
    return (config["model"]["name"], config["scenario"]["name"], config["device"], str(config["threads"]), *texts)


def _with_different_titles(comparisons: Sequence[Comparison]) -> list[Comparison]:
    """Add to equal titles, before device and threads, their suites where each has its own, else what differs."""
    renamed = []
    for comparison in comparisons:
        *form, device, threads = comparison.title.split(", ")
        same = [_settings(other) for other in comparisons if other.title == comparison.title]
        settings = _settings(comparison)
        keys = [key for key in settings if any(str(other.get(key)) != str(settings[key]) for other in same)]
        if len({other["suite"] for other in same}) == len(same) > 1:
            keys = ["suite"]
        added = [
            f"{key.rpartition('.')[2].replace('_', ' ')} {_spaced(settings[key])}" for key in keys if settings[key]
        ]
        renamed.append(replace(comparison, title=", ".join([*form, *added, device, threads])))
    return renamed


def _settings(comparison: Comparison) -> dict[str, Any]:
    config = comparison.rows[0].record["config"]
    return flatten({name: config.get(name) for name in ("dataset", "model", "training", "suite")})


def _spaced(value: Any) -> str:
    """A list without commas, because commas separate the parts of a title."""
    return " ".join(map(str, value)) or "none" if isinstance(value, list | tuple) else str(value)


def _comparison(
    key: tuple[str, ...],
    records: Sequence[StoredRecord],
    environments: Mapping[str, dict[str, Any]],
    scores: list[Published],
) -> Comparison:
    model, scenario, device, threads = key[:4]
    table = rows(records, environments)
    title = f"{model}, {scenario}, {_form(table[0].record['config'])}, {device}, {plural(int(threads), 'thread')}"
    matches = [published_for(record, scores) for row in table for record in row.ok]
    return Comparison(title, table, next((match for match in matches if match), None))


def _form(config: Mapping[str, Any]) -> str:
    """Batches and depth of a training or inference; width, heads and order of one aggregation."""
    if config["scenario"]["name"] != "spmm":
        batch = config["training"].get("batch_size")
        if config["scenario"]["name"] == "infer":
            return f"all nodes, {plural(config['model'].get('layers', 0), 'layer')}"
        batches = "full batch" if batch is None else f"batches of {batch:,}"
        return f"{batches}, {plural(config['model'].get('layers', 0), 'layer')}"
    heads = f", {plural(config['model']['heads'], 'head')}" if config["model"]["name"] == "gat" else ""
    order = config.get("order", {}).get("name", "none")
    return f"{config['model']['hidden']} wide{heads}" + ("" if order == "none" else f", {order} order")
