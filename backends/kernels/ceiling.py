"""Memory traffic and nothing else, to measure what this machine allows: streams and gathers of rows."""

from collections.abc import Callable

import torch
from torch import Tensor

from backends.kernels.buffers import empty
from backends.kernels.native import native

_CHUNK = 1 << 12


def read_stream(source: Tensor, threads: int) -> float:
    """Read a float32 array once; returns its sum."""
    if native is not None:
        return float(native.read_stream(source, threads))
    return float(source.sum())


def triad(a: Tensor, b: Tensor, c: Tensor, scale: float, threads: int) -> None:
    """Write ``b + scale * c`` into ``a``; float32 of one shape."""
    if native is not None:
        native.triad(a, b, c, scale, threads)
    else:
        torch.add(b, c, alpha=scale, out=a)


def table_of(rows: int, width: int) -> Tensor:
    """Return a table of ones [rows, width], float32, on the pages that the kernels' own results have."""
    return empty((rows, width), torch.float32).fill_(1.0)


def gathering(table: Tensor, indices: Tensor) -> Callable[[int, int, int], float]:
    """Return a call that reads rows ``indices`` (int32) of ``table`` [rows, width], float32, and returns their sum.

    It takes how many rows ahead to prefetch (0: none), how many rows to read before the next group of columns of the
    same rows, and the threads. Native code sums in registers, in no fixed order; without it rows are copied into a
    buffer that stays in cache, and 0 is returned. Raises ValueError for rows that do not exist.
    """
    if len(indices) and not 0 <= int(indices.min()) <= int(indices.max()) < len(table):
        raise ValueError(f"rows {int(indices.min())} to {int(indices.max())} of {len(table)}: give rows that exist")
    if native is not None:
        return lambda ahead, block, threads: float(native.gather_rows(table, indices, ahead, block, threads))
    kept = torch.empty(min(_CHUNK, len(indices)), table.shape[1])

    def copy(ahead: int, block: int, threads: int) -> float:
        for part in indices.split(_CHUNK):
            torch.index_select(table, 0, part, out=kept[: len(part)])
        return 0.0

    return copy
