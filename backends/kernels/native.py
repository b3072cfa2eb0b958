"""The compiled kernels, where they are built; ``None`` elsewhere, and then plain torch does the work."""

import torch  # its OpenMP runtime is the one that the extension shares, so it must be loaded first

try:
    from backends.kernels import _native as native
except ImportError:
    native = None  # type: ignore[assignment]

BUILD_COMMAND = "pip install -e . (needs a C++20 compiler, for instance: apt install g++)"
_SMALL = 1 << 16


def threads() -> int:
    """Threads that a kernel may use: torch's own setting, passed explicitly at each call."""
    return torch.get_num_threads()


def workers(edges: int, width: int) -> int:
    """Threads worth starting: one where the whole product is smaller than what starting costs."""
    return 1 if edges * width < _SMALL else threads()


def description() -> str:
    """Name what computes: ``native`` or ``plain torch``."""
    return "plain torch" if native is None else "native"
