"""Cells: configurations with ablations resolved to switches; for those that cannot run, the status of their record."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any, cast

from backends.ablation import AblationError, resolve, switches
from backends.contract import Unsupported
from datasets.hashes import digest
from harness.launcher.messages import CellConfig, PlannedCell
from harness.planning.devices import missing_device
from harness.planning.identity import config_diff, execution_config, record_path
from harness.planning.interpreter import missing_package
from harness.planning.schema import RunConfig
from harness.store.naming import flatten
from harness.usage import UsageError


@dataclass
class Cell:
    """One child process, one record; ``status`` is set where the outcome is known without starting it.

    ``labels`` are the lists of ablations that led to it: two where a list that names every switch and the empty list
    led to the same cell.
    """

    config: RunConfig
    labels: list[list[str]]
    hash: str
    config_diff: dict[str, list[Any]] = field(default_factory=dict)
    status: str | None = None
    message: str = ""
    overrides: list[str] = field(default_factory=list)

    @property
    def may_run_elsewhere(self) -> bool:
        """Whether the packages of this interpreter alone refuse the cell."""
        config = self.config
        reason = config.backend.unsupported_here(config.scenario.name, config.trains_no_mini_batches)
        return self.status == "not_installed" or (self.status == "unsupported" and self.message == reason)

    def plain(self, machine: str, group: str, graph: str | None, prepare: dict[str, float]) -> PlannedCell:
        """Return the JSON form that the launcher reads; ``prepare`` are the seconds that the graph took."""
        return {
            "config": cast(CellConfig, asdict(self.config)),
            "hash": self.hash,
            "path": record_path(self.config, self.hash, machine, group),
            "config_diff": self.config_diff,
            "labels": self.labels,
            "overrides": self.overrides,
            "graph": graph,
            "prepare": prepare,
            "status": self.status,
            "message": self.message,
        }


def resolve_cell(config: RunConfig, overrides: Sequence[str] = ()) -> Cell:
    """Resolve the switches of a configuration; raises UsageError for ablations that contradict or change nothing."""
    names = sorted(name for name, on in config.ablations.items() if on)
    without = replace(config, backend=resolve(config.backend, ()))
    try:
        resolved = replace(config, backend=resolve(config.backend, names))
    except Unsupported as error:
        name = digest([execution_config(without), names])
        return Cell(without, [names], name, {}, "unsupported", str(error), list(overrides))
    except AblationError as error:
        raise UsageError(str(error)) from error
    difference = config_diff(without, resolved)
    if names and not difference and not _names_all(config, names):
        raise UsageError(_without_effect(config, names))
    status, message = _known_outcome(resolved)
    return Cell(resolved, [names], digest(execution_config(resolved)), difference, status, message, list(overrides))


def _names_all(config: RunConfig, names: list[str]) -> bool:
    named = {switch for name in names if name != "base" for switch in config.backend.ablations[name]}
    return named == set(switches(config.backend))


def _without_effect(config: RunConfig, names: list[str]) -> str:
    values = flatten({"backend": {key: getattr(config.backend, key) for key in switches(config.backend)}})
    explicit = ", ".join(f"{key}={value}" for key, value in values.items() if value != "auto")
    return f"ablation {'+'.join(names)} changes nothing beside {explicit}: drop one of the two"


def _known_outcome(config: RunConfig) -> tuple[str | None, str]:
    """Status and message of a cell that cannot run; what another interpreter lacks, its own process says."""
    backend, scenario, full_batch = config.backend, config.scenario.name, config.trains_no_mini_batches
    reason = backend.unsupported(scenario, config.model.name, config.device, full_batch)
    reason = reason or backend.unsupported_type(config.training.dtype)
    if reason is None and config.launcher.python is None:
        reason = backend.unsupported_here(scenario, full_batch)
    if reason is not None:
        return "unsupported", reason
    if config.launcher.python is None and (reason := missing_device(config.device)) is not None:
        return "not_installed", reason
    reason = missing_package(config) if config.launcher.python is not None else backend.missing(full_batch)
    return ("not_installed", reason) if reason is not None else (None, "")
