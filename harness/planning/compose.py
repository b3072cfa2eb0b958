"""Composition of command lines by Hydra, whose jobs append their values to a list and run nothing."""

import os
import re
import shutil
import sys
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import dataclass, field
from functools import cache, lru_cache
from pathlib import Path
from typing import Any

import hydra
from hydra._internal.utils import get_args_parser
from hydra.core.config_search_path import ConfigSearchPath
from hydra.core.hydra_config import HydraConfig
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.plugins import Plugins
from hydra.errors import ConfigCompositionException, HydraException, MissingConfigException, OverrideParseException
from hydra.plugins.search_path_plugin import SearchPathPlugin
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from backends.registry import backend_names, config_class
from datasets.plugins import PluginError, conf_folders
from harness.planning.config import register_schemas
from harness.usage import UsageError, nearest, unknown

CONF = Path(__file__).resolve().parents[2] / "conf"
SWEEP_FOLDER = "gnn-harness-sweep-"  # then a process id; Hydra writes there what nobody reads
SWEEP_FLAGS = ("-m", "--multirun")
VALUE = re.compile(r"(tier|seed|threads|device|results|\w+\.[\w.]+)=")  # sets a key that exists and chooses no file
FUNCTION = re.compile(r"=\w+ ?\(")  # such as range(0,3) or glob(*), which may stand for no value


@dataclass
class Composition:
    """The values that Hydra composed for one cell or suite, and the overrides that led to them."""

    values: dict[str, Any]
    overrides: list[str] = field(default_factory=list)


def compose_arguments(arguments: list[str]) -> list[Composition]:
    """Compose a command line: once without ``-m``, once per combination with it; raises UsageError, also without one.

    Of flags that only show something, ``--help`` ends the program with exit code 0; after ``--cfg`` and ``--info``
    nothing is composed.
    """
    compositions: list[Composition] = []

    def append(config: DictConfig) -> None:
        compositions.append(Composition(_plain(config), list(HydraConfig.get().overrides.task)))

    append.__module__ = "harness.planning.compose"
    register_configs()
    entry = hydra.main(version_base="1.3", config_path=str(CONF), config_name="config")(append)
    with _hydra_run(arguments), usage_errors():
        entry()
    if not compositions and not _only_shows(arguments):
        swept = [argument for argument in arguments if FUNCTION.search(argument)]
        raise UsageError(f"the sweep has no cell: {' or '.join(swept) or 'an override'} stands for no value")
    for composition in compositions:
        check_recipe(composition.overrides)
    return compositions


def check_recipe(overrides: Iterable[str]) -> None:
    """Raise UsageError for a recipe that is not there: Hydra leaves it out without a word, as the default is optional.

    That default is the recipe of the data set and the model, which few pairs have.
    """
    names = sorted({path.stem for folder in (CONF, *conf_folders()) for path in (folder / "recipe").glob("*.yaml")})
    for override in overrides:
        key, _, name = override.partition("=")
        if key.lstrip("+") == "recipe" and name.strip("'\"") not in (*names, "null"):
            raise unknown("recipe", name, names)


def _only_shows(arguments: list[str]) -> bool:
    """Whether a command line that Hydra accepted asks for nothing but a look at the configuration."""
    flags = get_args_parser().parse_args(_flags_first(arguments))
    return bool(flags.shell_completion or flags.cfg or flags.info)


def _flags_first(arguments: list[str]) -> list[str]:
    """The arguments with the flag of a sweep before the overrides: argparse refuses it between them."""
    return sorted(arguments, key=lambda argument: argument not in SWEEP_FLAGS)


@cache
def register_configs() -> None:
    """Register the typed schemas and the folders of plug-ins with Hydra; raises PluginError for a file in two."""
    files = {path.relative_to(CONF): f"gnn-harness ({CONF})" for path in CONF.rglob("*.yaml")}
    for folder, plugin in conf_folders().items():
        for path in sorted(folder.rglob("*.yaml")):
            relative = path.relative_to(folder)
            if relative in files:
                raise plugin.error(f"has a file {relative}, as has {files[relative]}: rename one of the two")
            files[relative] = f"{plugin.package} ({folder})"
    register_schemas()
    Plugins.instance().register(PluginFolders)


class PluginFolders(SearchPathPlugin):
    """Puts the configuration folders of plug-ins behind ours on Hydra's search path."""

    def manipulate_search_path(self, search_path: ConfigSearchPath) -> None:
        """Append the folders."""
        for folder, plugin in conf_folders().items():
            search_path.append(provider=plugin.package, path=f"file://{folder}")


def compose_one(overrides: list[str]) -> dict[str, Any]:
    """Compose one list of overrides without a command line; raises UsageError.

    Each choice of files is composed once; as Hydra does, the values of keys are then set in the order of the overrides.
    """
    register_configs()
    check_recipe(overrides)
    with usage_errors():
        values = [override for override in overrides if VALUE.match(override)]
        config = deepcopy(_composed(tuple(override for override in overrides if override not in values)))
        try:
            for override in OverridesParser.create().parse_overrides(values):
                OmegaConf.update(config, override.key_or_group, override.value(), merge=True)
        except (HydraException, OmegaConfBaseException, ValueError):
            config = _composed(tuple(overrides))  # fails as well, with Hydra's explanation
        return _plain(config)


@lru_cache(maxsize=256)  # the largest suite has about 100 choices of files
def _composed(overrides: tuple[str, ...]) -> DictConfig:
    with hydra.initialize_config_dir(str(CONF), job_name="harness", version_base="1.3"):
        return hydra.compose("config", list(overrides))


def _plain(config: DictConfig) -> dict[str, Any]:
    values = OmegaConf.to_container(config, resolve=True, throw_on_missing=True)
    assert isinstance(values, dict)
    return {str(key): value for key, value in values.items()}


@contextmanager
def _hydra_run(arguments: list[str]) -> Iterator[None]:
    """Run Hydra on ``arguments`` with a temporary sweep folder, and let its exceptions through."""
    saved, full = sys.argv, os.environ.get("HYDRA_FULL_ERROR")
    _remove_abandoned_folders()
    folder = tempfile.mkdtemp(prefix=f"{SWEEP_FOLDER}{os.getpid()}-")
    OmegaConf.register_new_resolver("harness_sweep", lambda: folder, replace=True)
    sys.argv, os.environ["HYDRA_FULL_ERROR"] = [saved[0], *_flags_first(arguments)], "1"
    try:
        yield
    finally:
        sys.argv = saved
        os.environ.pop("HYDRA_FULL_ERROR")
        if full is not None:
            os.environ["HYDRA_FULL_ERROR"] = full
        shutil.rmtree(folder, ignore_errors=True)


def _remove_abandoned_folders() -> None:
    """Remove the sweep folders of processes that were killed."""
    for folder in Path(tempfile.gettempdir()).glob(f"{SWEEP_FOLDER}*-*"):
        process = folder.name.removeprefix(SWEEP_FOLDER).partition("-")[0]
        if not Path("/proc", process).exists():
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
    except AssertionError as error:  # of Hydra, which checks the size of a batch and gives no reason
        raise UsageError(_first_line(error) or "hydra.sweeper.max_batch_size is not allowed: give 1 or more") from error
    except (HydraException, OmegaConfBaseException, ValueError) as error:
        if isinstance(error, UsageError | PluginError):
            raise
        raise UsageError(_first_line(error)) from error


def _missing(error: MissingConfigException) -> str:
    group, _, name = str(error.missing_cfg_file or "").rpartition("/")
    if group == "backend" and name in backend_names():
        return f"backend {name!r} is registered and has no conf/backend/{name}.yaml: add that file"
    if group == "schema/backend" and name not in backend_names():
        where = "MODULES of backends/registry.py, or as an entry point of its package"
        return f"conf/backend/{name}.yaml is of a backend that is not registered: add {name!r} to {where}"
    if group == "schema/backend":
        try:
            config_class(name)
        except PluginError as broken:
            return str(broken)
    if not error.options:
        return _first_line(error)
    allowed = sorted(error.options)
    return f"{group} {name!r} is unknown: allowed are {', '.join(allowed)}{nearest(name, allowed)}"


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
    allowed = sorted({path.name for folder in (CONF, *conf_folders()) for path in folder.iterdir() if path.is_dir()})
    if group in allowed:
        return f"{group!r} is not chosen by default: write +{group}=NAME"
    return f"group {group!r} is unknown: allowed are {', '.join(allowed)}{nearest(group, allowed)}"


def _siblings(cause: Any, key: str) -> list[str]:
    parent = cause.parent_node
    prefix = key.rpartition(".")[0]
    names = [str(name) for name in parent if name != "hydra"] if isinstance(parent, DictConfig) else []
    return sorted(f"{prefix}.{name}" if prefix else name for name in names)


def _first_line(error: BaseException | None) -> str:
    return str(error).strip().split("\n")[0]
