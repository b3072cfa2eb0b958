"""Memory traffic without arithmetic, to measure this machine's ceilings: streams and gathers of rows."""

from collections.abc import Callable

import torch
from torch import Tensor

from backends.kernels.buffers import empty
from backends.kernels.dispatch import implementation


def read_stream(source: Tensor, threads: int) -> float:
    """Read a float32 array once; returns its sum."""
    _check("source", source)
    return float(implementation("source", source).read_stream(source, threads))


def triad(a: Tensor, b: Tensor, c: Tensor, scale: float, threads: int) -> None:
    """Write ``b + scale * c`` into ``a``; float32 of one shape."""
    for name, array in (("a", a), ("b", b), ("c", c)):
        _check(name, array)
        if array.shape != a.shape:
            raise ValueError(f"{name} has shape {tuple(array.shape)} beside {tuple(a.shape)}: give all one shape")
    implementation("a", a).triad(a, b, c, scale, threads)


def table_of(rows: int, width: int) -> Tensor:
    """Return a table of ones [rows, width], float32, allocated like the kernels' results."""
    return empty((rows, width), torch.float32).fill_(1.0)


def gathering(table: Tensor, indices: Tensor) -> Callable[[int, int, int], float]:
    """Return a call that reads rows ``indices`` (int32) of ``table`` [rows, width], float32, and returns their sum.

    It takes how many rows ahead to prefetch (0: none), how many rows to read before the next group of columns of the
    same rows, and the threads. Native code sums in registers, in no fixed order; plain torch copies rows into a buffer
    that stays in cache, and returns 0. Raises ValueError for rows that do not exist.
    """
    _check("table", table)
    _check("indices", indices, torch.int32)
    if len(indices) and not 0 <= int(indices.min()) <= int(indices.max()) < len(table):
        raise ValueError(f"rows {int(indices.min())} to {int(indices.max())} of {len(table)}: give rows that exist")
    gather: Callable[[int, int, int], float] = implementation("table", table).gathering(table, indices)
    return gather


def _check(name: str, array: Tensor, dtype: torch.dtype = torch.float32) -> None:
    if array.dtype != dtype or not array.is_contiguous():
        layout = "" if array.is_contiguous() else ", not contiguous"
        raise ValueError(f"{name} is {array.dtype}{layout}: a contiguous array of {dtype} is needed")
