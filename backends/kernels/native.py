"""The compiled kernels, where they are built; ``None`` elsewhere, and then plain torch does the work."""

import hashlib
import importlib
from contextlib import suppress
from pathlib import Path
from typing import Any

import torch  # its OpenMP runtime is the one that the extension shares, so it must be loaded first

# ``ATEN_CPU_CAPABILITY`` lowers torch's kernels and ours alike
BUILDS = ("_native_avx512", "_native") if torch.backends.cpu.get_cpu_capability() == "AVX512" else ("_native",)


SOURCES = Path(__file__).parent / "cpp"


def _load() -> Any:
    """Load the build with the widest vectors that this processor has."""
    for build in BUILDS:
        with suppress(ModuleNotFoundError):  # only that: an extension that is there and does not load is an error
            return _current(importlib.import_module(f"backends.kernels.{build}"), SOURCES)
    return None


def _current(module: Any, sources: Path) -> Any:
    """Return the extension, or raise ImportError where it was not built from the ``sources`` that lie here.

    Records hash the sources, so that an older build would be measured under another's name.
    """
    files = sorted(str(path) for path in sources.glob("*.?pp"))
    digests = "".join(hashlib.sha256(Path(path).read_bytes()).hexdigest() for path in files)
    if files and getattr(module, "sources", None) != hashlib.sha256(digests.encode()).hexdigest():
        raise ImportError(
            f"the compiled kernels ({module.__file__}) were not built from the sources in {sources}: build them again "
            "with `make setup`, or with `pip install -e .` in an environment of your own"
        )
    return module


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
