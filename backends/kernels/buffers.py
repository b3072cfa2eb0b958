"""Memory for results: large ones on huge pages, in blocks that the allocator reuses for the next call."""

from math import prod

import numpy as np
import torch
from torch import Tensor

_LARGE = 4 << 20
_LINE = 64


def empty(shape: tuple[int, ...], dtype: torch.dtype) -> Tensor:
    """Allocate memory for a result, not initialised, aligned to a cache line.

    Large results come from numpy. Torch's allocator asks for aligned blocks, into which a freed block of the same size
    does not fit, so that large results move through fresh pages for many calls. It also leaves them on small pages,
    where a gather of random rows waits for the page table; numpy advises huge pages, whatever the allocator of the
    process; peers get them by ``launcher.allocator=huge``.
    """
    count = prod(shape) * dtype.itemsize
    if count < _LARGE:
        return torch.empty(shape, dtype=dtype)
    block = np.empty(count + _LINE, dtype=np.uint8)
    start = -block.ctypes.data % _LINE
    kind = torch.empty(0, dtype=dtype).numpy().dtype
    # shaped by numpy: autograd refuses to write over a tensor that torch knows as a view
    return torch.from_numpy(block[start : start + count].view(kind).reshape(shape))


def empty_like(tensor: Tensor) -> Tensor:
    """Allocate memory of a tensor's shape and type, contiguous."""
    return empty(tuple(tensor.shape), tensor.dtype)
