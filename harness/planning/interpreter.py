"""The environment that must not have changed for a record to count, of this interpreter or of another."""

import json
import os
import subprocess
from functools import cache
from pathlib import Path
from typing import Any

from harness.measure import environment
from harness.usage import UsageError

ROOT = Path(__file__).resolve().parents[2]


def checked_environment(config: dict[str, Any]) -> dict[str, Any]:
    """Return CPU or GPU, threads, versions and protocol as a cell of this config would record them."""
    backend, launcher = config["backend"]["name"], config["launcher"]
    return _checked(backend, config["threads"], config["device"], launcher["python"])


@cache
def _checked(backend: str, threads: int, device: str, python: str | None) -> dict[str, Any]:
    if python is None:
        return environment.checked(backend, threads, device)
    command = [python, "-m", "harness.measure.environment", backend, str(threads), device]
    try:
        answer = subprocess.run(
            command, cwd=ROOT, env=os.environ | {"PYTHONPATH": str(ROOT)}, capture_output=True, text=True, timeout=60
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise UsageError(f"launcher.python={python} cannot be started ({error}): give the path of a Python") from error
    if answer.returncode != 0:
        last = answer.stderr.strip().rpartition("\n")[2]
        raise UsageError(f"launcher.python={python} cannot describe itself ({last}): it needs Python 3.11")
    checked: dict[str, Any] = json.loads(answer.stdout)["checked"]
    return checked


def missing_package(config: dict[str, Any]) -> str | None:
    """Say which package of its engine another interpreter lacks, or ``None``."""
    packages = checked_environment(config)["packages"]
    lacking = [name for name, version in packages.items() if version is None]
    python = config["launcher"]["python"]
    return f"{python} has no package {lacking[0]}: {python} -m pip install {lacking[0]}" if lacking else None
