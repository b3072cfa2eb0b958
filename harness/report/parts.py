"""From records to data sets and their tables."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from harness.report.published import Published, published_for, published_scores
from harness.report.rows import Found, Row, rows
from harness.store.naming import flatten


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
    """The tables of the wanted scenarios, their titles told apart; ``suffix`` does so with the figures."""
    kept = [
        replace(
            part,
            comparisons=_told_apart([held for held in part.comparisons if wanted(held.scenario)]),
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


def plural(count: int, what: str) -> str:
    """Name a number of things."""
    return f"{count} {what}{'' if count == 1 else 's'}"


def _told_apart(comparisons: Sequence[Comparison]) -> list[Comparison]:
    """Add to equal titles, before device and threads, their suites where each has its own, else what differs."""
    told = []
    for held in comparisons:
        *form, device, threads = held.title.split(", ")
        same = [_settings(other) for other in comparisons if other.title == held.title]
        mine = _settings(held)
        keys = [key for key in mine if any(str(other.get(key)) != str(mine[key]) for other in same)]
        if len({other["suite"] for other in same}) == len(same) > 1:
            keys = ["suite"]
        said = [f"{key.rpartition('.')[2].replace('_', ' ')} {_spaced(mine[key])}" for key in keys if mine[key]]
        told.append(replace(held, title=", ".join([*form, *said, device, threads])))
    return told


def _settings(comparison: Comparison) -> dict[str, Any]:
    config = comparison.rows[0].record["config"]
    return flatten({name: config.get(name) for name in ("dataset", "model", "training", "suite")})


def _spaced(value: Any) -> str:
    """A list without commas, which part a title."""
    return " ".join(map(str, value)) or "none" if isinstance(value, list | tuple) else str(value)


def _comparison(
    key: tuple[str, ...], found: Sequence[Found], environments: Mapping[str, dict[str, Any]], scores: list[Published]
) -> Comparison:
    model, scenario, device, threads = key[:4]
    made = rows(found, environments)
    config = made[0].record["config"]
    batch = config["training"].get("batch_size")
    form = "full batch" if batch is None else f"batches of {batch:,}"
    layers = config["model"].get("layers", 0)
    form += f", {plural(layers, 'layer')}"
    if scenario == "spmm":
        form = f"{config['model']['hidden']} wide" + (
            f", {plural(config['model']['heads'], 'head')}" if model == "gat" else ""
        )
        order = config.get("order", {}).get("name", "none")
        form += "" if order == "none" else f", {order} order"
    title = f"{model}, {scenario}, {form}, {device}, {plural(int(threads), 'thread')}"
    matches = [published_for(record, scores) for row in made for record in row.ok]
    return Comparison(title, made, next((match for match in matches if match), None))
