"""Plug-ins: engines, data sets, orders and configuration files that other installed packages offer by entry points.

Each kind is a group of entry points, ``gnn_harness.<kind>``:

- ``backends``: name -> ``module:Class``, a ``BackendConfig``
- ``datasets``: name -> ``module:object``, an ``Entry`` or a loader
- ``orders``: name -> ``module:function``
- ``configs``: any name -> a package whose folder ``conf`` is put on Hydra's search path
"""

import hashlib
import importlib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.metadata import entry_points
from importlib.util import find_spec
from pathlib import Path
from typing import Any, TypeVar

T = TypeVar("T")
KINDS = ("backends", "datasets", "orders", "configs")
SOURCES = (".py", ".pyi", ".c", ".cpp", ".cu", ".h", ".hpp", ".so")


class PluginError(ValueError):
    """A plug-in that cannot be imported, is of the wrong type for its kind, or has a name that is already taken."""


@dataclass(frozen=True)
class Plugin:
    """One entry point; ``target`` is ``module:object`` or a package, ``package`` the distribution with its version."""

    kind: str
    name: str
    target: str
    package: str

    def __str__(self) -> str:
        return f"{self.target} of package {self.package}"

    def load(self) -> Any:
        """Import the object; any exception of the package becomes PluginError."""
        module, _, name = self.target.partition(":")
        try:
            return getattr(importlib.import_module(module), name)
        except Exception as error:
            raise self.error(f"cannot be imported: {type(error).__name__}: {error}") from error

    def error(self, problem: str) -> PluginError:
        """Return an error about this plug-in."""
        return PluginError(f"{self.kind.removesuffix('s')} {self.name!r}, {self}, {problem}")

    def folder(self) -> Path:
        """Return the folder of the package that holds the target; raises PluginError."""
        module = self.target.partition(":")[0]
        try:
            spec = find_spec(module if self.kind == "configs" else module.partition(".")[0])
        except Exception as error:
            raise self.error(f"cannot be imported: {type(error).__name__}: {error}") from error
        if spec is None or (not spec.origin and not spec.submodule_search_locations):
            raise self.error(f"cannot be imported: there is no module {module}")
        return Path(next(iter(spec.submodule_search_locations or [str(spec.origin)])))

    def source_hash(self) -> str:
        """Hash the source files of the whole package, paths and contents."""
        folder = self.folder()
        files = [folder] if folder.is_file() else [path for path in folder.rglob("*") if path.suffix in SOURCES]
        digest = hashlib.sha256()
        for path in sorted(files):
            digest.update(f"{path.relative_to(folder.parent)}\0".encode() + path.read_bytes())
        return digest.hexdigest()[:16]


@cache
def plugins(kind: str) -> dict[str, Plugin]:
    """Return the plug-ins of a kind by name; raises PluginError where two have the same."""
    known: dict[str, Plugin] = {}
    for point in sorted(entry_points(group=f"gnn_harness.{kind}"), key=lambda point: (point.name, point.value)):
        package = f"{point.dist.name} {point.dist.version}" if point.dist else "?"
        plugin = Plugin(kind, point.name, point.value, package)
        if point.name in known:
            raise collision(plugin, str(known[point.name]))
        known[point.name] = plugin
    return known


def with_plugins(kind: str, ours: Mapping[str, T]) -> dict[str, T | Plugin]:
    """Return our entries of a kind and those of plug-ins; raises PluginError for a name that both have."""
    for name, plugin in plugins(kind).items():
        if name in ours:
            raise collision(plugin, f"{getattr(ours[name], 'loader', ours[name])} of gnn-harness")
    return {**ours, **plugins(kind)}


def collision(plugin: Plugin, other: str) -> PluginError:
    """Return the error for a plug-in whose name ``other`` has already."""
    return plugin.error(f"has the name of {other}: rename one of the two, or uninstall its package")


def conf_folders() -> dict[Path, Plugin]:
    """Return the existing configuration folders of plug-ins; the command ``list`` names plug-ins without one."""
    folders = {}
    for plugin in plugins("configs").values():
        try:
            folders[conf_folder(plugin)] = plugin
        except PluginError:
            continue
    return folders


def conf_folder(plugin: Plugin) -> Path:
    """Return the configuration folder of a plug-in; raises PluginError where there is none."""
    folder = plugin.folder() / "conf"
    if not folder.is_dir():
        raise plugin.error(f"has no folder {folder}: install its YAML files as package data")
    return folder
