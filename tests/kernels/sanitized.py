"""Plugin of ``make asan``: the kernels under test are those of build/asan, wherever others are installed."""

import importlib.util
import sys
from pathlib import Path

import torch  # noqa: F401  # its OpenMP runtime must be loaded first

NAME, FOLDER = "backends.kernels._native", Path(__file__).parents[2] / "build" / "asan" / "backends" / "kernels"

(_built,) = FOLDER.glob("_native.*.so")
_spec = importlib.util.spec_from_file_location(NAME, _built)
assert _spec is not None and _spec.loader is not None
sys.modules[NAME] = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(sys.modules[NAME])


def pytest_report_header() -> str:
    """Say whose kernels run."""
    return f"kernels: {_built}"
