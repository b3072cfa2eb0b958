"""From records to data sets and their tables."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from harness.report.published import Published, published_for, published_scores
from harness.report.rows import Found, Row, rows


@dataclass
class Comparison:
    """One table: the rows of one model and scenario on one data set and machine."""

    title: str
    rows: list[Row]
    published: Published | None

    @property
    def scenario(self) -> str:
        """What was timed."""
        return str(self.rows[0].record["config"]["scenario"]["name"])


@dataclass
class DatasetPart:
    """All tables of one data set on one machine."""

    name: str
    machine: str
    comparisons: list[Comparison]
    figure: str

    @property
    def anchor(self) -> str:
        """What names its figure and its place in the page."""
        return f"{self.name}-{self.machine}"


def dataset_parts(
    results: Path, found: Sequence[Found], environments: Mapping[str, dict[str, Any]]
) -> list[DatasetPart]:
    """Sort the records into data sets and tables."""
    scores = published_scores()
    tree: dict[tuple[str, str], dict[tuple[str, ...], list[Found]]] = {}
    for path, record in found:
        machine, dataset = path.relative_to(results).parts[:2]
        tree.setdefault((dataset, machine), {}).setdefault(_table_key(record["config"]), []).append((path, record))
    parts = []
    for (dataset, machine), compared in sorted(tree.items()):
        comparisons = [_comparison(key, held, environments, scores) for key, held in sorted(compared.items())]
        parts.append(DatasetPart(dataset, machine, comparisons, f"{dataset}-{machine}.svg"))
    return parts


def chosen(parts: Sequence[DatasetPart], wanted: Callable[[str], bool], suffix: str = "") -> list[DatasetPart]:
    """The tables of the wanted scenarios; ``suffix`` tells their figures apart."""
    kept = [
        replace(
            part,
            comparisons=[comparison for comparison in part.comparisons if wanted(comparison.scenario)],
            figure=f"{part.anchor}{suffix}.svg",
        )
        for part in parts
    ]
    return [part for part in kept if part.comparisons]


def _table_key(config: Mapping[str, Any]) -> tuple[str, ...]:
    """What all rows of a table share: precision and the engine's options are rows, the order too but for ``spmm``."""
    training = {key: value for key, value in config["training"].items() if key != "dtype"}
    measure = {key: value for key, value in config.get("measure", {}).items() if key != "deadline_seconds"}
    order = config.get("order", {}) if config["scenario"]["name"] == "spmm" else {}
    shared = (config["dataset"], config["model"], training, order, measure, config["scenario"].get("train_to_end"))
    texts = [json.dumps(values, sort_keys=True) for values in shared]
    return (config["model"]["name"], config["scenario"]["name"], config["device"], str(config["threads"]), *texts)


def _comparison(
    key: tuple[str, ...], found: Sequence[Found], environments: Mapping[str, dict[str, Any]], scores: list[Published]
) -> Comparison:
    model, scenario, device, threads = key[:4]
    made = rows(found, environments)
    config = made[0].record["config"]
    batch = config["training"].get("batch_size")
    form = "full batch" if batch is None else f"batches of {batch:,}"
    layers = config["model"].get("layers", 0)
    form += f", {layers} layer{'s' if layers > 1 else ''}"
    if scenario == "spmm":
        form = f"{config['model']['hidden']} wide" + (f", {config['model']['heads']} heads" if model == "gat" else "")
        order = config.get("order", {}).get("name", "none")
        form += "" if order == "none" else f", {order} order"
    title = f"{model}, {scenario}, {form}, {device}, {threads} threads"
    matches = [published_for(record, scores) for row in made for record in row.ok]
    return Comparison(title, made, next((match for match in matches if match), None))
