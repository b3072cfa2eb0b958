"""Strict loading of composed values into a typed configuration; a UsageError names the allowed values."""

import json
import re
from collections.abc import Iterator
from dataclasses import asdict, dataclass, fields, is_dataclass
from functools import cache
from pathlib import Path
from typing import Any, get_type_hints

from backends.ablation import switches
from backends.registry import BackendConfig, backend_names, config_class, usable_class
from backends.settings import setting_of, settings_in
from datasets.hashes import stored_sha256
from datasets.registry import dataset_names, identified_options
from harness.planning.schema import RunConfig, from_dict
from harness.store.sections import RecordedConfig
from harness.store.violations import unsound, violations
from harness.usage import UsageError, nearest, unknown

OF_PARTS = ("parts", "imbalance", "balance", "objective")  # settings of scenarios that divide a graph
LARGEST = 1e9  # of a setting that is no whole number; a record holds none beyond

SECTIONS: dict[str, type] = {
    name: kind
    for name, kind in get_type_hints(RunConfig).items()
    if isinstance(kind, type) and is_dataclass(kind) and kind is not BackendConfig
}


@dataclass
class ComposedConfig(RunConfig):
    """Hydra's type of a run's configuration, in which a suite is still the content of its file."""

    suite: Any = None


@cache
def register_schemas() -> None:
    """Put every typed schema into Hydra's group ``schema``, one per section and one per usable backend; once."""
    from hydra.core.config_store import ConfigStore

    store = ConfigStore.instance()
    store.store(group="schema", name="config", node=ComposedConfig)
    for name, kind in SECTIONS.items():
        store.store(group="schema", name=name, node=kind)
    for name in backend_names():
        if backend := usable_class(name):
            store.store(group="schema/backend", name=name, node=backend)


def load(values: dict[str, Any]) -> RunConfig:
    """Turn plain values into a checked configuration; raises UsageError before any data is read."""
    backend = str(values.get("backend", {}).get("name"))
    if backend not in backend_names():
        raise unknown("backend", backend, backend_names())
    check_keys(RunConfig, values)
    try:
        config = from_dict(RunConfig, values)
    except (TypeError, ValueError, KeyError) as error:
        raise UsageError(str(error)) from error
    for name in switches(config.backend):
        setattr(config.backend, name, str(getattr(config.backend, name)).lower())
    validate(config)
    config.dataset.options = _identified(config.dataset.name, config.dataset.options)
    config.scenario.state_sha256 = _state_sha256(config.scenario.state)
    return config


def _identified(dataset: str, options: dict[str, Any]) -> dict[str, Any]:
    try:
        return identified_options(dataset, options)
    except ValueError as error:
        raise UsageError(str(error)) from error


def _state_sha256(state: str | None) -> str | None:
    """Hash the file of parameters to start from: other parameters at the same path make other cells."""
    try:
        return None if state is None else stored_sha256(Path(state))
    except OSError as error:
        reason = error.strerror or error
        raise UsageError(
            f"scenario.state={state} cannot be read ({reason}): give a file of trained parameters"
        ) from error


def check_keys(kind: type, values: dict[str, Any], prefix: str = "") -> None:
    """Raise UsageError for a key that is no field of its dataclass: Hydra accepts ``+backend.prunning=true``."""
    hints = get_type_hints(kind)
    allowed = [item.name for item in fields(kind)]
    for key, value in values.items():
        if key not in allowed:
            names = [f"{prefix}{name}" for name in allowed]
            raise unknown("key", f"{prefix}{key}", names)
        section = config_class(value["name"]) if hints[key] is BackendConfig else hints[key]
        if isinstance(section, type) and is_dataclass(section) and isinstance(value, dict):
            check_keys(section, value, f"{prefix}{key}.")


def validate(config: RunConfig) -> None:
    """Check single values, then those that belong together; raises UsageError for the first that is wrong."""
    for key, value, allowed in _named_values(config):
        _check_choice(key, value, allowed)
    for key, setting, value in settings_in(config):
        if setting.choices:
            _check_choice(key, value, setting.choices)
        if isinstance(value, float) and not abs(value) <= LARGEST:
            raise UsageError(f"{key}={value:g} is not allowed: give a number of at most {LARGEST:g}")
        if value is not None and setting.least is not None and value < setting.least:
            raise UsageError(f"{key}={value} is too small: give at least {setting.least:g}")
    _check_together(config)
    _check_recordable(config)


def _check_choice(key: str, value: Any, allowed: tuple[str, ...]) -> None:
    if value not in allowed:
        raise UsageError(f"{key}={value} is not allowed: choose {', '.join(allowed)}{nearest(str(value), allowed)}")


def _named_values(config: RunConfig) -> Iterator[tuple[str, str, tuple[str, ...]]]:
    """Yield the values whose choices are registered names, and the switches of the backend."""
    # Not imported above: orders import numpy, which --help does not need.
    from datasets.order import order_names

    yield "dataset.name", config.dataset.name, dataset_names()
    yield "order.name", config.order.name, order_names()
    for name in switches(config.backend):
        yield f"backend.{name}", getattr(config.backend, name), ("auto", "true", "false")


def _check_together(config: RunConfig) -> None:
    model, training, measure = config.model, config.training, config.measure
    if not re.fullmatch(r"cpu|cuda(:[0-9]+)?", config.device):
        raise UsageError(f"device={config.device} is not allowed: give cpu, cuda or cuda:<number>")
    if model.fanouts and len(model.fanouts) != model.layers:
        entries = len(model.fanouts)
        raise UsageError(f"model.fanouts has {entries} entries for {model.layers} layers: give one per layer, or []")
    if any(fanout < 1 for fanout in model.fanouts):
        fanouts = ",".join(map(str, model.fanouts))
        raise UsageError(f"model.fanouts=[{fanouts}] is not allowed: give numbers from 1, or [] for all neighbours")
    if config.launcher.memory_limit_gib == 0:
        raise UsageError("launcher.memory_limit_gib=0 is not allowed: give GiB above 0, or null for the machine's")
    if abs(config.seed) >= 2**63:
        raise UsageError(f"seed={config.seed} is not allowed: give a whole number of less than 64 bits")
    if max(training.dropout, training.attention_dropout) >= 1:
        raise UsageError("training.dropout and training.attention_dropout must be below 1: 1 drops everything")
    if training.batch_limit is not None and training.batch_size is None:
        raise UsageError("training.batch_limit needs training.batch_size: a full batch has no batches to limit")
    if measure.max_samples < measure.min_samples:
        largest = f"measure.max_samples={measure.max_samples}"
        raise UsageError(f"{largest} is below measure.min_samples={measure.min_samples}: raise it")
    if config.order.name == "none" and config.order.options:
        raise UsageError(f"order.options={config.order.options} are of no order: give order=NAME, or leave them out")
    known = {name for one in backend_names() if (kind := usable_class(one)) for name in kind.ablations} | {"base"}
    for name in config.ablations:
        if name not in known:
            raise unknown("ablation", name, sorted(known))
    _check_scenario(config)


def _check_scenario(config: RunConfig) -> None:
    """Raise UsageError for a value that the scenario would ignore."""
    scenario = config.scenario
    readers = {"target": ("train",), "save_state": ("train",), "state": ("train", "infer")}
    for key, names in readers.items():
        value = getattr(scenario, key)
        if value is not None and scenario.name not in names:
            raise UsageError(
                f"scenario.{key}={value} is of scenario {' and '.join(names)}, {scenario.name} ignores it: leave it out"
            )
    for item in fields(scenario):
        value = getattr(scenario, item.name)
        if (
            item.name in OF_PARTS
            and value != setting_of(item).before
            and scenario.name not in ("partition", "dispatch")
        ):
            raise UsageError(
                f"scenario.{item.name}={value} is of scenario partition and dispatch, {scenario.name} ignores it: "
                "leave it out"
            )
    if scenario.save_state is not None and not scenario.train_to_end:
        raise UsageError(
            f"scenario.save_state={scenario.save_state} is written by the pass for accuracy, which "
            "scenario.train_to_end=false leaves out: set it true, or leave out scenario.save_state"
        )


def _check_recordable(config: RunConfig) -> None:
    """Raise UsageError for a value that no record may hold, as the cell would be measured and its record refused."""
    values = json.loads(json.dumps(asdict(config)))
    if wrong := unsound(values) or violations(values, RecordedConfig):
        raise UsageError(wrong[0])
