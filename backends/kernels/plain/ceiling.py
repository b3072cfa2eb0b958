"""Memory traffic by torch's own operations: streams and gathers of rows."""

from collections.abc import Callable

import torch
from torch import Tensor

_CHUNK = 1 << 12


def read_stream(source: Tensor, threads: int) -> float:
    """Read a float32 array once; returns its sum."""
    return float(source.sum())


def triad(a: Tensor, b: Tensor, c: Tensor, scale: float, threads: int) -> None:
    """Write ``b + scale * c`` into ``a``."""
    torch.add(b, c, alpha=scale, out=a)


def gathering(table: Tensor, indices: Tensor) -> Callable[[int, int, int], float]:
    """Return a call that copies rows of ``table`` into a buffer that stays in cache, and returns 0."""
    buffer = torch.empty(min(_CHUNK, len(indices)), table.shape[1])

    def copy(ahead: int, block: int, threads: int) -> float:
        for part in indices.split(_CHUNK):
            torch.index_select(table, 0, part, out=buffer[: len(part)])
        return 0.0

    return copy
