"""The compiled kernels, where they are built; ``None`` elsewhere, and then plain torch does the work."""

import importlib
from contextlib import suppress
from typing import Any

import torch  # its OpenMP runtime is the one that the extension shares, so it must be loaded first

# ``ATEN_CPU_CAPABILITY`` lowers torch's kernels and ours alike
BUILDS = ("_native_avx512", "_native") if torch.backends.cpu.get_cpu_capability() == "AVX512" else ("_native",)


def _load() -> Any:
    """Load the build with the widest vectors that this processor has."""
    for build in BUILDS:
        with suppress(ModuleNotFoundError):  # only that: an extension that is there and does not load is an error
            return importlib.import_module(f"backends.kernels.{build}")
    return None


native: Any = _load()

_SMALL = 1 << 16


def threads() -> int:
    """Threads that a kernel may use: torch's own setting, passed explicitly at each call."""
    return torch.get_num_threads()


def workers(edges: int, width: int, small: int = _SMALL) -> int:
    """Threads worth starting: one where the whole product is smaller than what starting costs."""
    return 1 if edges * width < small else threads()


def description() -> str:
    """Name what computes: ``native``, ``native_avx512`` or ``plain torch``."""
    return "plain torch" if native is None else native.__name__.rpartition("._")[2]
