"""Pytest plugin of ``make asan``: load the kernels of build/asan instead of the installed ones."""

import importlib.util
import sys
from pathlib import Path

import torch

FOLDER = Path(__file__).parents[3] / "build" / "asan" / "backends" / "kernels"


BUILDS = ("_native_avx512", "_native") if torch.backends.cpu.get_cpu_capability() == "AVX512" else ("_native",)
_built = next(path for build in BUILDS for path in FOLDER.glob(f"{build}.*.so"))
_name = f"backends.kernels.{_built.name.partition('.')[0]}"
_spec = importlib.util.spec_from_file_location(_name, _built)
assert _spec is not None and _spec.loader is not None
sys.modules[_name] = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(sys.modules[_name])


def pytest_report_header() -> str:
    """Name the library whose kernels run."""
    return f"kernels: {_built}"
