"""Hydra as a reader of command lines: a job appends its values to a list, and nothing runs inside Hydra."""

import os
import re
import shutil
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import hydra
from hydra.core.hydra_config import HydraConfig
from hydra.errors import ConfigCompositionException, HydraException, MissingConfigException, OverrideParseException
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from harness.planning.config import register_schemas
from harness.usage import UsageError, nearest

CONF = Path(__file__).resolve().parents[2] / "conf"


@dataclass
class Composition:
    """Values of one Hydra job and the overrides that led to them."""

    values: dict[str, Any]
    overrides: list[str] = field(default_factory=list)


def compose_arguments(arguments: list[str]) -> list[Composition]:
    """Compose a command line into jobs, one without ``-m``, one per combination with it; raises UsageError.

    Flags that only show something (``--help``, ``--cfg``, ``--info``) end the program with exit code 0.
    """
    jobs: list[Composition] = []

    def append(config: DictConfig) -> None:
        jobs.append(Composition(_plain(config), list(HydraConfig.get().overrides.task)))

    append.__module__ = "harness.planning.compose"
    register_schemas()
    entry = hydra.main(version_base="1.3", config_path=str(CONF), config_name="config")(append)
    with _hydra_alone(arguments), usage_errors():
        entry()
    return jobs


def compose_one(overrides: list[str]) -> dict[str, Any]:
    """Compose one list of overrides without a command line; raises UsageError."""
    register_schemas()
    with usage_errors(), hydra.initialize_config_dir(str(CONF), job_name="harness", version_base="1.3"):
        return _plain(hydra.compose("config", overrides))


def _plain(config: DictConfig) -> dict[str, Any]:
    values = OmegaConf.to_container(config, resolve=True, throw_on_missing=True)
    assert isinstance(values, dict)
    return {str(key): value for key, value in values.items()}


@contextmanager
def _hydra_alone(arguments: list[str]) -> Iterator[None]:
    """Give Hydra its own arguments, a sweep folder that is deleted, and let its exceptions through."""
    saved, full = sys.argv, os.environ.get("HYDRA_FULL_ERROR")
    folder = tempfile.mkdtemp(prefix="gnn-harness-")
    OmegaConf.register_new_resolver("harness_sweep", lambda: folder, replace=True)
    sys.argv, os.environ["HYDRA_FULL_ERROR"] = [saved[0], *arguments], "1"
    try:
        yield
    finally:
        sys.argv = saved
        os.environ.pop("HYDRA_FULL_ERROR")
        if full is not None:
            os.environ["HYDRA_FULL_ERROR"] = full
        shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def usage_errors() -> Iterator[None]:
    """Turn exceptions of Hydra and OmegaConf into one sentence each."""
    try:
        yield
    except MissingConfigException as error:
        raise UsageError(_missing(error)) from error
    except OverrideParseException as error:
        raise UsageError(
            f"override {error.override!r} cannot be read: write key=value, quote lists as '[a,b]'"
        ) from error
    except ConfigCompositionException as error:
        raise UsageError(_composition(error)) from error
    except (HydraException, OmegaConfBaseException, ValueError) as error:
        if isinstance(error, UsageError):
            raise
        raise UsageError(_first_line(error)) from error


def _missing(error: MissingConfigException) -> str:
    group, _, given = str(error.missing_cfg_file or "").rpartition("/")
    if not error.options:
        return _first_line(error)
    allowed = sorted(error.options)
    return f"{group} {given!r} is unknown: allowed are {', '.join(allowed)}{nearest(given, allowed)}"


def _composition(error: ConfigCompositionException) -> str:
    cause = error.__cause__
    key = getattr(cause, "full_key", None)
    if key and "not in" in str(cause):
        allowed = _siblings(cause, key)
        if not allowed:
            return f"key {key!r} has no value yet: write +{key}=VALUE"
        return f"key {key!r} is unknown: allowed are {', '.join(allowed)}{nearest(key, allowed)}"
    if key:
        return f"{key}: {_first_line(cause)}"
    group = re.search(r"Could not override '([^']+)'", str(error))
    if group:
        return _no_default(group[1])
    group = re.search(r"Multiple values for (\S+)\.", str(error))
    if group:
        return f"{group[1]!r} is chosen already: write {group[1]}=NAME, without +"
    return _first_line(error)


def _no_default(group: str) -> str:
    if (CONF / group).is_dir():
        return f"{group!r} is not chosen by default: write +{group}=NAME"
    allowed = sorted(path.name for path in CONF.iterdir() if path.is_dir())
    return f"group {group!r} is unknown: allowed are {', '.join(allowed)}{nearest(group, allowed)}"


def _siblings(cause: Any, key: str) -> list[str]:
    parent = cause.parent_node
    prefix = key.rpartition(".")[0]
    names = [str(name) for name in parent if name != "hydra"] if isinstance(parent, DictConfig) else []
    return sorted(f"{prefix}.{name}" if prefix else name for name in names)


def _first_line(error: BaseException | None) -> str:
    return str(error).strip().split("\n")[0]
