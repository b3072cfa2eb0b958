"""What makes two cells the same: the execution config and its hash, the difference an ablation makes, the path."""

from dataclasses import asdict
from typing import Any

from harness.planning.schema import RunConfig
from harness.store.naming import flatten

NOT_EXECUTED = ("seed", "ablations", "tracker", "results", "dry_run", "wait", "retry", "suite", "tier")
NOT_IN = {
    "launcher": ("name", "python", "memory_limit_gib"),
    "measure": ("deadline_seconds",),
    "scenario": ("save_state",),
}
# Options that came after records had been written, with the value at which nothing changed: their hashes stay.
LATER = {"backend": {"resample": False}}


def execution_config(config: RunConfig) -> dict[str, Any]:
    """Keep of a resolved config what is executed: no seed, labels, trackers, paths, deadlines or interpreters.

    Of the launcher only the allocator stays, because it is an axis that moves times.
    """
    values = {key: value for key, value in asdict(config).items() if key not in NOT_EXECUTED}
    for section, left_out in NOT_IN.items():
        values[section] = {key: value for key, value in values[section].items() if key not in left_out}
    for section, same in LATER.items():
        kept = values[section].items()
        values[section] = {key: value for key, value in kept if key not in same or value != same[key]}
    return values


def config_diff(without: RunConfig, with_ablations: RunConfig) -> dict[str, list[Any]]:
    """Map each dotted key that the ablations changed to ``[value without, value with]``."""
    before, after = flatten(execution_config(without)), flatten(execution_config(with_ablations))
    keys = sorted(set(before) | set(after))
    return {key: [before.get(key), after.get(key)] for key in keys if before.get(key) != after.get(key)}


def cell_folder(config: RunConfig, name: str, machine: str) -> str:
    """Return the folder of a cell's records, relative to the results folder; ``name`` is the cell's hash."""
    parts = (config.dataset.name, config.model.name, config.backend.name, config.scenario.name)
    return "/".join((machine, *parts, name))


def record_path(config: RunConfig, name: str, machine: str, group: str) -> str:
    """Return a record's path; ``{environment}`` is filled by who knows the packages of the child's interpreter."""
    return f"{cell_folder(config, name, machine)}/seed={config.seed}.{{environment}}.{group}.json"
