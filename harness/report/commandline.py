"""The command that measures a row again: the overrides that lead from today's configuration files to its record."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from functools import cache
from typing import Any

from backends.ablation import AblationError, resolve
from backends.contract import Unsupported
from harness.planning.compose import CONF, compose_one
from harness.planning.config import load
from harness.planning.schema import is_executed
from harness.store.naming import flatten
from harness.store.record import Record
from harness.usage import UsageError


def overrides(record: Record) -> list[str]:
    """Overrides without the seed that give a record's execution config; the shortest list that does.

    Groups are chosen by name first; what still differs is said key by key. A choice that the configuration files no
    longer hold leaves every key said.
    """
    config = record["config"]
    chosen = [f"{group}={config[group]['name']}" for group in ("dataset", "model", "backend")]
    chosen += [f"scenario={config['scenario']['name']}"] if config["scenario"]["name"] != "train" else []
    order = config.get("order", {}).get("name", "none")
    chosen += [f"order={order}"] if order != "none" else []
    names = sorted(record.get("ablations", []))
    chosen += [f"+ablation={names[0] if len(names) == 1 else '[' + ','.join(names) + ']'}"] if names else []
    asked = execution_values(config)
    chosen += _nearest_measure(asked)
    return chosen + _differences(asked, tuple(chosen))


def _nearest_measure(asked: Mapping[str, Any]) -> list[str]:
    """The file of the group ``measure`` that leaves the fewest keys to be said; none where the usual one is as near."""

    def said(choice: list[str]) -> int:
        held = _composed(tuple(choice))
        unlike = [key for key in asked if key.startswith("measure.") and (key not in held or held[key] != asked[key])]
        return len(choice) + len(unlike)

    return min([[], *([f"measure={path.stem}"] for path in sorted((CONF / "measure").glob("*.yaml")))], key=said)


def command(backends: Iterable[str], rest: Sequence[str], seeds: Iterable[int]) -> str:
    """One command line for cells that differ in nothing but the backend and the seed."""
    names = ",".join(dict.fromkeys(backends))
    numbers = ",".join(str(seed) for seed in sorted(set(seeds)))
    sweep = "-m " if "," in names + numbers else ""
    asked = [f"backend={names}", *rest, f"seed={numbers}"]
    return f"python -m harness {sweep}{' '.join(quoted(text) for text in asked)}"


def quoted(override: str) -> str:
    """Protect an override from the shell."""
    return f"'{override}'" if set(override) & set("[]{}()$ *&|;<>~") else override


def execution_values(config: Mapping[str, Any]) -> dict[str, Any]:
    """Dotted keys of a plain config that are executed and can be said on the command line."""
    flat = flatten(config)
    return {key: _listed(value) for key, value in flat.items() if value != {} and not _unasked(key)}


def _unasked(key: str) -> bool:
    return key.partition(".")[2] == "name" or not is_executed(key)


def _listed(value: Any) -> Any:
    return list(value) if isinstance(value, tuple) else value


def _differences(asked: dict[str, Any], chosen: tuple[str, ...]) -> list[str]:
    held = _composed(chosen)
    changed = [key for key, value in asked.items() if key not in held or held[key] != value]
    added = [f"{'' if key in held else '++'}{key}={text(asked[key])}" for key in changed]
    return added + [f"~{key}" for key in held if key not in asked and ".options." in key]


@cache
def _composed(chosen: tuple[str, ...]) -> dict[str, Any]:
    """What the configuration files give for these choices, its switches resolved."""
    try:
        config = load(compose_one(list(chosen)))
        config.backend = resolve(config.backend, [name for name, on in config.ablations.items() if on])
    except (UsageError, AblationError, Unsupported):
        return {}
    return execution_values(asdict(config))


def text(value: Any) -> str:
    """Write a value as Hydra reads it."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, list | tuple):
        return "[" + ",".join(text(item) for item in value) + "]"
    return "{}" if value == {} else str(value)
