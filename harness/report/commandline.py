"""The command that measures a row again: overrides of today's configuration files that give its record's config."""

import re
import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from functools import cache
from typing import Any

from hydra.core.override_parser.types import Quote, QuotedString

from backends.ablation import AblationError, resolve
from backends.contract import Unsupported
from harness.planning.compose import CONF, compose_one
from harness.planning.config import load
from harness.planning.schema import is_executed
from harness.store.naming import flatten
from harness.store.record import Record
from harness.usage import UsageError

BARE = re.compile(r"[A-Za-z_/][\w./-]*", re.ASCII)  # what Hydra reads as text without quotes, but for these words
NO_TEXT = ("null", "true", "false", "nan", "inf")  # in whatever case
TOGETHER = {"model": "dataset", "+ablation": "backend"}  # groups whose choices share values
INTERPOLATION = re.compile(r"(\\*)\$\{")


def overrides(record: Record) -> list[str]:
    """Shortest list of overrides, without the seed, that give a record's execution config.

    Groups are chosen by name first, then every key that still differs is given, without ``removed_options``. Where the
    configuration files lack a choice that the record names, all keys are given.
    """
    chosen = _choices(record)
    return [*chosen, *_differences(execution_values(record["config"]), chosen)]


def removed_options(record: Record) -> list[str]:
    """``key=value`` of a record's config whose keys no configuration has today: commands with them are refused."""
    composed, values = _composed(_choices(record)), execution_values(record["config"])
    return [f"{key}={text(value)}" for key, value in values.items() if _is_removed(key, composed)]


def _is_removed(key: str, composed: Mapping[str, Any]) -> bool:
    """Whether the schema lacks a key; those of options are free, and nothing is known where nothing was composed."""
    return bool(composed) and key not in composed and ".options." not in key


def _choices(record: Record) -> tuple[str, ...]:
    """The groups of the configuration that a record names, and its ablations."""
    config = record["config"]
    chosen = [f"{group}={config[group]['name']}" for group in ("dataset", "model", "backend")]
    chosen += [f"scenario={config['scenario']['name']}"] if config["scenario"]["name"] != "train" else []
    order = config.get("order", {}).get("name", "none")
    chosen += [f"order={order}"] if order != "none" else []
    launcher = config.get("launcher", {}).get("name", "process")
    chosen += [f"launcher={launcher}"] if launcher != "process" else []
    names = sorted(record.get("ablations", []))
    chosen += [f"+ablation={names[0] if len(names) == 1 else '[' + ','.join(names) + ']'}"] if names else []
    return (*chosen, *_nearest_measure(execution_values(config)))


def _nearest_measure(values: Mapping[str, Any]) -> list[str]:
    """The choice of ``measure`` after which the fewest keys differ; none where the default is as good."""

    def differing(choice: list[str]) -> int:
        composed = _composed(tuple(choice))
        unlike = [
            key
            for key in values
            if key.startswith("measure.") and (key not in composed or composed[key] != values[key])
        ]
        return len(choice) + len(unlike)

    return min([[], *([f"measure={path.stem}"] for path in sorted((CONF / "measure").glob("*.yaml")))], key=differing)


def command(backends: Iterable[str], choices: Sequence[str], seeds: Iterable[int]) -> str:
    """One command line for cells that differ in nothing but the backend and the seed."""
    names = ",".join(dict.fromkeys(backends))
    numbers = ",".join(str(seed) for seed in sorted(set(seeds)))
    sweep = "-m " if "," in names + numbers else ""
    arguments = [f"backend={names}", *choices, f"seed={numbers}"]
    return f"python -m harness {sweep}{' '.join(quoted(text) for text in arguments)}"


def quoted(override: str) -> str:
    """Protect an override from the shell."""
    return shlex.quote(override)


def execution_values(config: Mapping[str, Any]) -> dict[str, Any]:
    """The executed values of a plain config by dotted key, without the names that choose a group."""
    flat = flatten(config)
    return {key: _as_list(value) for key, value in flat.items() if value != {} and not _not_on_command_line(key)}


def _not_on_command_line(key: str) -> bool:
    return key.partition(".")[2] == "name" or not is_executed(key)


def _as_list(value: Any) -> Any:
    return list(value) if isinstance(value, tuple) else value


def _differences(values: dict[str, Any], chosen: tuple[str, ...]) -> list[str]:
    composed = _composed(chosen)
    usable = {key: value for key, value in values.items() if not _is_removed(key, composed)}
    changed = [key for key, value in usable.items() if key not in composed or composed[key] != value]
    added = [f"{'' if key in composed else '++'}{key}={text(values[key])}" for key in changed]
    return added + [f"~{key}" for key in composed if key not in values and ".options." in key]


def _composed(chosen: Sequence[str]) -> dict[str, Any]:
    """Execution values of the configuration files with these choices; nothing where they lack one.

    Hydra takes a fifth of a second to compose one list, and a report has thousands of combinations. A data set and a
    model share values (recipes), as do a backend and its ablations; each other group sets its own keys alone.
    """
    groups: dict[str, list[str]] = {"dataset": [], "backend": []}
    for choice in chosen:
        group = choice.partition("=")[0]
        groups.setdefault(TOGETHER.get(group, group), []).append(choice)
    parts = {group: _composed_together(tuple(choices)) for group, choices in groups.items()}
    if not all(parts.values()):
        return {}
    whole = parts.pop("dataset")
    shared = {key: value for key, value in whole.items() if key.partition(".")[0] not in parts}
    own = [(key, value) for group, values in parts.items() for key, value in values.items() if _belongs(key, group)]
    return shared | dict(own)


def _belongs(key: str, group: str) -> bool:
    return key.startswith(f"{group}.")


@cache
def _composed_together(chosen: tuple[str, ...]) -> dict[str, Any]:
    """What Hydra composes with these choices, ablations resolved to switches; nothing where it refuses them."""
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
    if isinstance(value, str):
        return _text_of_string(value)
    return "{}" if value == {} else str(value)


def _text_of_string(value: str) -> str:
    """Write a string in quotes where Hydra would else read a sweep, a number or another value, or an interpolation."""
    if BARE.fullmatch(value) and value.lower() not in NO_TEXT:
        return value
    literal = INTERPOLATION.sub(lambda match: rf"{2 * match[1]}\${{", value)
    return QuotedString(literal, Quote.double).with_quotes()
