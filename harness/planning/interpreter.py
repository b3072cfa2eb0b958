"""Checked environment of a cell under its interpreter, which may be another one than this; a group's id hashes it."""

import json
import os
import subprocess
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

from datasets.plugins import plugins
from harness.measure import environment
from harness.usage import UsageError

ROOT = Path(__file__).resolve().parents[2]


def checked_environment(config: dict[str, Any]) -> dict[str, Any]:
    """Return CPU or GPU, threads, versions and protocol as a cell of this config would record them.

    A plug-in's order adds the hash of its sources, because the parent applies it and no child loads its module.
    """
    backend, launcher = config["backend"]["name"], config["launcher"]
    order = plugins("orders").get(config["order"]["name"])
    checked = _checked(backend, config["threads"], config["device"], launcher["allocator"], launcher["python"])
    return checked if order is None else checked | {"order": order.source_hash()}


@cache
def _checked(backend: str, threads: int, device: str, allocator: str, python: str | None) -> dict[str, Any]:
    if python is None:
        return environment.checked(backend, threads, device, allocator)
    command = [python, "-m", "harness.measure.environment", backend, str(threads), device, allocator]
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
        f"launcher.python={python} cannot describe itself ({last or 'it printed nothing'}): it needs Python 3.11"
    )


def missing_package(config: dict[str, Any]) -> str | None:
    """Say which package of its engine another interpreter lacks, or ``None``."""
    packages = checked_environment(config)["packages"]
    missing = [name for name, version in packages.items() if version is None]
    python = config["launcher"]["python"]
    return f"{python} has no package {missing[0]}: {python} -m pip install {missing[0]}" if missing else None
