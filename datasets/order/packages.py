"""Packages of others that compute an order: another version of one may give another order."""

from collections.abc import Mapping
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from typing import Any

PARTITIONERS = ("dgl", "kahip", "kaminpar", "mtkahypar", "pymetis")  # that the engine of order parts may be or call
PACKAGES = {"metis": ("pymetis", "scipy"), "parts": PARTITIONERS, "rcm": ("scipy",), "slashburn": ("scipy",)}

MODULES = {"pymetis": "pymetis", "scipy": "scipy.sparse.csgraph"}


def import_packages(name: str, options: Mapping[str, Any]) -> None:
    """Import what computes an order: the first order of a process would pay for all that follow."""
    for package in order_packages(name, options):
        if package in MODULES:
            import_module(MODULES[package])


def order_packages(name: str, options: Mapping[str, Any]) -> dict[str, str]:
    """Versions of the installed packages that compute an order; empty for one that numpy computes alone."""
    computed = str(options.get("inner", "rcm")) if name == "blockwise" else name
    versions = {}
    for package in PACKAGES.get(computed, ()):
        try:
            versions[package] = version(package)
        except PackageNotFoundError:
            continue
    return versions
