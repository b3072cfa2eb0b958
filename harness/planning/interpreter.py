"""Checked environment of a cell under its interpreter, which may be another one than this; a group's id hashes it."""

import json
import os
import subprocess
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

from datasets.order.packages import order_packages
from datasets.plugins import plugins
from harness.measure import environment
from harness.planning.schema import OrderConfig, RunConfig
from harness.usage import UsageError

ROOT = Path(__file__).resolve().parents[2]


def checked_environment(config: RunConfig) -> dict[str, Any]:
    """Return CPU or GPU, threads, versions and protocol as a cell of this config would record them.

    What computes its order is added, because the parent applies it and no child loads that.
    """
    backend, launcher = config.backend, config.launcher
    packages = backend.packages_used(config.scenario.name, config.trains_no_mini_batches)
    described = backend.name, config.threads, config.device, launcher.allocator, packages
    return _checked(launcher.python, *described) | _of_order(config.order)


def _of_order(order: OrderConfig) -> dict[str, Any]:
    """The hash of the sources of a plug-in's order, and the versions of the packages that an order calls."""
    plugin, packages = plugins("orders").get(order.name), order_packages(order.name, order.options)
    sources = {} if plugin is None else {"order": plugin.source_hash()}
    return sources | ({"order_packages": packages} if packages else {})


@cache
def _checked(
    python: str | None, backend: str, threads: int, device: str, allocator: str, packages: tuple[str, ...]
) -> dict[str, Any]:
    if python is None:
        return environment.checked(backend, threads, device, allocator, packages)
    command = [python, "-m", "harness.measure.environment", backend, str(threads), device, allocator, *packages]
    path = os.pathsep.join(part for part in (str(ROOT), os.environ.get("PYTHONPATH")) if part)
    variables = os.environ | {"PYTHONPATH": path, "PYTHONSAFEPATH": "1"}
    try:
        answer = subprocess.run(
            command, env=variables, capture_output=True, encoding="utf-8", errors="replace", timeout=60
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise UsageError(f"launcher.python={python} cannot be started ({error}): give the path of a Python") from error
    # A wrapper may print lines of its own before those of the interpreter that it starts.
    last = (answer.stderr if answer.returncode else answer.stdout).strip().rpartition("\n")[2]
    if answer.returncode == 0:
        with suppress(ValueError, KeyError, TypeError):
            return dict(json.loads(last)["checked"])
    raise UsageError(
        f"launcher.python={python} cannot describe itself ({last or 'it printed nothing'}): "
        "it needs Python 3.11 or newer, with numpy and torch"
    )


def missing_package(config: RunConfig) -> str | None:
    """Say which package of its engine another interpreter lacks, or ``None``."""
    packages = checked_environment(config)["packages"]
    missing = [name for name, version in packages.items() if version is None]
    if not missing:
        return None
    python = config.launcher.python
    advice = f"{python} -m pip install {missing[0]}, in the version that constraints.txt names"
    return f"{python} has no package {missing[0]}: {advice}"
