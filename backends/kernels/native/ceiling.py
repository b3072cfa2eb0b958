"""Memory traffic by the compiled extension, summed in registers: streams and gathers of rows."""

from collections.abc import Callable

from torch import Tensor

from backends.kernels.extension import extension


def read_stream(source: Tensor, threads: int) -> float:
    """Read a float32 array once; returns its sum."""
    return float(extension.read_stream(source, threads))


def triad(a: Tensor, b: Tensor, c: Tensor, scale: float, threads: int) -> None:
    """Write ``b + scale * c`` into ``a``."""
    extension.triad(a, b, c, scale, threads)


def gathering(table: Tensor, indices: Tensor) -> Callable[[int, int, int], float]:
    """Return a call that reads rows of ``table`` and returns their sum, added in no fixed order."""
    return lambda ahead, block, threads: float(extension.gather_rows(table, indices, ahead, block, threads))
