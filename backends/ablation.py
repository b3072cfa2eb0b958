"""Ablations: names resolved to switches by the map of each backend."""

from collections.abc import Collection
from dataclasses import replace
from typing import TypeVar

from backends.contract import Unsupported
from backends.registry import BackendConfig

C = TypeVar("C", bound=BackendConfig)


class AblationError(ValueError):
    """The named ablations contradict each other or change nothing."""


def switches(config: BackendConfig) -> tuple[str, ...]:
    """Names of all switches of a backend, in the order of its map."""
    return tuple(dict.fromkeys(switch for group in config.ablations.values() for switch in group))


def resolve(config: C, names: Collection[str]) -> C:
    """Set every ``auto`` switch: on when no ablation is named, else on only if a named one keeps it.

    Raises Unsupported for a name the backend does not know, AblationError for ``base`` beside another name, for a name
    whose switches are all overruled by explicit values, and for one that switches off what another option is of.
    """
    _check_names(config, names)
    explicit = {switch: getattr(config, switch) for switch in switches(config) if getattr(config, switch) != "auto"}
    remaining = {switch for name in names if name != "base" for switch in config.ablations[name]}
    for name in names:
        affected = switches(config) if name == "base" else config.ablations[name]
        if affected and all(switch in explicit for switch in affected):
            overruling = ", ".join(f"backend.{switch}={explicit[switch]}" for switch in affected)
            raise AblationError(
                f"ablation {name!r} changes nothing, because {overruling} overrules it: drop one of the two"
            )
    values = {switch: "true" if not names or switch in remaining else "false" for switch in switches(config)}
    if "base" in names:
        values |= {key: value for key, value in config.base.items() if key not in explicit}
    try:
        return replace(config, **(values | explicit))
    except ValueError as error:
        raise AblationError(f"ablation {'+'.join(sorted(names)) or 'none'}: {error}") from error


def _check_names(config: BackendConfig, names: Collection[str]) -> None:
    known = list(config.ablations) + (["base"] if config.ablations else [])
    for name in names:
        if name not in known:
            allowed = ", ".join(known) or "none"
            raise Unsupported(f"backend {config.name} has no ablation {name!r}: allowed are {allowed}")
    if "base" in names and len(names) > 1:
        others = ", ".join(sorted(set(names) - {"base"}))
        raise AblationError(f"ablation 'base' stands alone, but {others} is named beside it: drop one of the two")
