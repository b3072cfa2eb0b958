"""The compiled extension of ``cpp/``, ``None`` where none is built that this processor can run.

An outdated build is an ImportError.
"""

import hashlib
import importlib
import platform
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import torch  # its OpenMP runtime is the one that the extension shares, so it must be loaded first

from backends.contract import Unsupported

SOURCES = Path(__file__).parent / "cpp"

_X86 = ("x86_64", "AMD64")
_SMALL = 1 << 16


def builds_for(machine: str, capability: str) -> tuple[str, ...]:
    """Builds that a processor can run, the widest vectors first; none for one of x86 without AVX2.

    ``capability`` is torch's name of its vectors, which ``ATEN_CPU_CAPABILITY`` lowers, for torch's kernels and ours.
    """
    if machine not in _X86:
        return ("_native",)
    return {"AVX512": ("_native_avx512", "_native"), "AVX2": ("_native",)}.get(capability, ())


def _load() -> Any:
    """Load the build with the widest vectors that this processor has."""
    for build in builds_for(platform.machine(), torch.backends.cpu.get_cpu_capability()):
        with suppress(ModuleNotFoundError):  # an extension that exists and does not load is an error
            return current(importlib.import_module(f"backends.kernels.{build}"), SOURCES)
    return None


def current(module: Any, sources: Path) -> Any:
    """Return the extension; raises ImportError where it was not built from the ``sources`` that lie here.

    Records hash the sources: an older build would be measured under the name of newer ones.
    """
    digest = digest_of(sources)
    if digest is not None and getattr(module, "sources", None) != digest:
        raise ImportError(
            f"the compiled kernels ({module.__file__}) were not built from the sources in {sources}: build them again "
            "with `make setup`, or with `pip install -e .` in an environment of your own"
        )
    return module


def digest_of(sources: Path) -> str | None:
    """SHA-256 of the digests of all C++ files, sorted by the bytes of their paths as in CMake; ``None`` without any."""
    paths = {path.relative_to(sources).as_posix(): path for path in sources.rglob("*.?pp")}
    digests = [hashlib.sha256(paths[name].read_bytes()).hexdigest() for name in sorted(paths)]
    return hashlib.sha256("".join(digests).encode()).hexdigest() if digests else None


extension: Any = _load()


class KernelsMissing(Unsupported, RuntimeError):
    """Raised for what the compiled kernels alone do, where none are built that this processor can run."""

    status = "unsupported"  # of the cell


def require(subject: str) -> None:
    """Refuse what only the extension does; ``subject`` begins the sentence."""
    if extension is None:
        raise KernelsMissing(
            f"{subject} by the compiled kernels only: `make setup` or `pip install -e .` builds them (for AVX2 on x86)"
        )


def arrays(*tensors: torch.Tensor | None) -> list[Any]:
    """Numpy views of tensors for a call of the extension, which takes one in 0.6 us and a tensor in 3 to 10."""
    return [None if tensor is None else tensor.numpy() for tensor in tensors]


def threads() -> int:
    """Threads that a kernel may use: torch's own setting, passed explicitly at each call."""
    return torch.get_num_threads()


@contextmanager
def using_threads(count: int) -> Iterator[None]:
    """Let kernels use ``count`` threads, called by this thread or by those that start inside; restored at the end."""
    before = threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def workers(edges: int, width: int, small: int = _SMALL) -> int:
    """Number of threads for a product: one where the product costs less than waking the others, or all.

    Never some: OpenMP ends the threads that a smaller team leaves over, and the next product starts them again.
    """
    return 1 if edges * width < small else threads()


def description() -> str:
    """Name the implementation on the CPU: ``native``, ``native_avx512`` or ``plain torch``."""
    return "plain torch" if extension is None else extension.__name__.rpartition("._")[2]
