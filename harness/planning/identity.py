"""Identity of a cell: its execution config, the difference that its ablations make, the path of its record."""

from dataclasses import asdict
from typing import Any

from backends.settings import executed_values
from harness.planning.schema import RunConfig
from harness.store.naming import dataset_name, flatten


def execution_config(config: RunConfig) -> dict[str, Any]:
    """Return the executed part of a resolved config, whose hash names the cell."""
    return executed_values(config)


def config_diff(without: RunConfig, with_ablations: RunConfig) -> dict[str, list[Any]]:
    """Map each dotted key that the ablations changed to ``[value without, value with]``."""
    before, after = flatten(execution_config(without)), flatten(execution_config(with_ablations))
    keys = sorted(set(before) | set(after))
    # Values from the whole config: the hash leaves out options whose value is the behaviour before they were added.
    every = [flatten(asdict(config)) for config in (without, with_ablations)]
    return {key: [values.get(key) for values in every] for key in keys if before.get(key) != after.get(key)}


def cell_folder(config: RunConfig, name: str, machine: str) -> str:
    """Return the folder of a cell's records, relative to the results folder; ``name`` is the cell's hash."""
    parts = (dataset_name(asdict(config.dataset)), config.model.name, config.backend.name, config.scenario.name)
    return "/".join((machine, *parts, name))


def record_path(config: RunConfig, name: str, machine: str, group: str) -> str:
    """Return a record's path; ``{environment}`` is filled in when the environment is known."""
    return f"{cell_folder(config, name, machine)}/seed={config.seed}.{{environment}}.{group}.json"
