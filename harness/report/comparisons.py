"""Records grouped into comparisons: one table per model and scenario, by data set and machine."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

from harness.planning.schema import ModelConfig, TrainingConfig, is_executed
from harness.report.formats import plural
from harness.report.published import Published, published_for, published_scores
from harness.report.rows import Row, rows
from harness.report.scopes import Scope, scope_of
from harness.store.naming import distinctions, flatten
from harness.store.record import StoredRecord

UNTIMED = ("epochs", "patience", "evaluate_every")  # they end a training, and change no epoch
DIVISION = {"parts": None, "balance": ["nodes"], "imbalance": 1.03, "objective": "cut"}


@dataclass
class Comparison:
    """One table: the rows of one model and scenario on one data set and machine."""

    title: str
    rows: list[Row]
    published: Published | None
    distinction: tuple[str, ...] = ()  # key=value of the settings that tell it from comparisons of the same name

    @property
    def scenario(self) -> str:
        """Name of the scenario that was timed."""
        return str(self.rows[0].record["config"]["scenario"]["name"])

    @property
    def ranks(self) -> bool:
        """Whether seconds alone rank the rows: they do not where each row's result is of another quality."""
        return not divides_nodes(self.rows[0].record["config"])

    @property
    def settings(self) -> dict[str, Any]:
        """The settings that all rows share, with dotted keys, and the suites that measured them."""
        shared = shared_settings(self.rows[0].record["config"])
        suites = sorted({str(record["config"].get("suite") or "none") for row in self.rows for _, record in row.cells})
        named = {name: shared.pop(name) for name in ("dataset", "model", "training", "order")}
        return flatten(named | {"suite": suites[0] if len(suites) == 1 else suites} | shared)


@dataclass
class DatasetComparisons:
    """All comparisons on one data set in one scope, and the name of their figure."""

    name: str
    scope: Scope
    comparisons: list[Comparison]
    figure: str

    @property
    def machine(self) -> str:
        """The machine that measured them."""
        return self.scope.machine

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
    """Sort the records into data sets, scopes and comparisons."""
    scores = published_scores()
    tree: dict[tuple[str, Scope], dict[tuple[str, ...], list[StoredRecord]]] = {}
    for path, record in records:
        key = (path.relative_to(results).parts[1], scope_of(results, path, record))
        tree.setdefault(key, {}).setdefault(_table_key(record["config"]), []).append((path, record))
    datasets = []
    for (dataset, scope), tables in sorted(tree.items()):
        comparisons = [_comparison(records, environments, scores) for _, records in sorted(tables.items())]
        datasets.append(DatasetComparisons(dataset, scope, comparisons, f"{dataset}-{scope.machine}.svg"))
    return datasets


def of_scenarios(
    datasets: Sequence[DatasetComparisons], accepts: Callable[[str], bool], suffix: str = ""
) -> list[DatasetComparisons]:
    """The comparisons of the scenarios that ``accepts`` takes, with different titles; figures end with ``suffix``."""
    selected = [
        replace(
            dataset,
            comparisons=_with_different_titles([one for one in dataset.comparisons if accepts(one.scenario)]),
            figure=f"{dataset.name}-{dataset.machine}{suffix}.svg",
        )
        for dataset in datasets
    ]
    return [dataset for dataset in selected if dataset.comparisons]


def shared_settings(config: Mapping[str, Any]) -> dict[str, Any]:
    """The settings that all rows of a table share; engine options, precision and (but in ``spmm``) order may differ.

    In ``infer`` the batch size is an engine's choice too: it changes how all nodes are scored, not which.
    """
    free = ("dtype", "batch_size") if config["scenario"]["name"] == "infer" else ("dtype",)
    return {
        "dataset": config["dataset"],
        "model": config["model"],
        "training": {key: value for key, value in config["training"].items() if key not in free},
        "order": config.get("order", {}) if config["scenario"]["name"] == "spmm" else {},
        "measure": executed_measure(config),
        "scenario": {"train_to_end": config["scenario"].get("train_to_end")} | _division(config),
    }


def workload(config: Mapping[str, Any]) -> dict[str, Any]:
    """What is timed, however much of it was measured: keys that an old record lacks have today's defaults."""
    shared = shared_settings(config)
    shared["model"], shared["training"] = ({**_defaults()[name], **shared[name]} for name in ("model", "training"))
    shared["training"] = {key: value for key, value in shared["training"].items() if key not in UNTIMED}
    task = {name: config[name] for name in ("device", "threads")} | {"scenario": config["scenario"]["name"]}
    return {name: shared[name] for name in ("dataset", "model", "training", "order")} | task


@cache
def _defaults() -> dict[str, dict[str, Any]]:
    training = asdict(TrainingConfig())
    return {"model": asdict(ModelConfig()), "training": {key: training[key] for key in training if key != "dtype"}}


def executed_measure(config: Mapping[str, Any]) -> dict[str, Any]:
    """How much is measured, without the limits of time, which may be raised for a cell that they shortened."""
    return {key: value for key, value in config.get("measure", {}).items() if is_executed(f"measure.{key}")}


def divides_nodes(config: Mapping[str, Any]) -> bool:
    """Whether a cell assigns nodes to parts, which engines do in different quality."""
    return config["scenario"]["name"] in ("partition", "dispatch")


def _division(config: Mapping[str, Any]) -> dict[str, Any]:
    """How a cell divides the nodes; nothing for those that do not."""
    if not divides_nodes(config):
        return {}
    scenario = config["scenario"]
    return {key: scenario.get(key, default) for key, default in DIVISION.items()}


def _table_key(config: Mapping[str, Any]) -> tuple[str, ...]:
    texts = [json.dumps(values, sort_keys=True) for values in shared_settings(config).values()]
    return (config["model"]["name"], config["scenario"]["name"], config["device"], str(config["threads"]), *texts)


def _with_different_titles(comparisons: Sequence[Comparison]) -> list[Comparison]:
    """Add to equal titles, before device and threads, the settings that tell them apart."""
    words = distinctions([one.title for one in comparisons], [one.settings for one in comparisons])
    renamed = []
    for comparison, added in zip(comparisons, words, strict=True):
        *form, device, threads = comparison.title.split(", ")
        renamed.append(replace(comparison, title=", ".join([*form, *added, device, threads])))
    return renamed


def _comparison(
    records: Sequence[StoredRecord], environments: Mapping[str, dict[str, Any]], scores: list[Published]
) -> Comparison:
    table = rows(records, environments)
    title = comparison_title(table[0].record["config"])
    matches = [published_for(record, scores) for row in table for record in row.ok]
    return Comparison(title, table, next((match for match in matches if match), None))


def comparison_title(config: Mapping[str, Any]) -> str:
    """Model, scenario, form, device and threads of a table."""
    threads = plural(int(config["threads"]), "thread")
    return f"{config['model']['name']}, {config['scenario']['name']}, {_form(config)}, {config['device']}, {threads}"


def _form(config: Mapping[str, Any]) -> str:
    """Batches and depth of a training or inference; width, heads and order of one aggregation; parts and what for."""
    if division := _division(config):
        objective = [str(division["objective"])] if division["objective"] != "cut" else []
        loads = [" and ".join(division["balance"])] if division["balance"] != ["nodes"] else []
        return ", ".join([f"{division['parts']} parts", *objective, *loads])
    if config["scenario"]["name"] != "spmm":
        batch = config["training"].get("batch_size")
        if config["scenario"]["name"] == "infer":
            return f"all nodes, {plural(config['model'].get('layers', 0), 'layer')}"
        batches = "full batch" if batch is None else f"batches of {batch:,}"
        return f"{batches}, {plural(config['model'].get('layers', 0), 'layer')}"
    heads = f", {plural(config['model']['heads'], 'head')}" if config["model"]["name"] == "gat" else ""
    order = config.get("order", {}).get("name", "none")
    return f"{config['model']['hidden']} wide{heads}" + ("" if order == "none" else f", {order} order")
