"""Memory for results: large ones on huge pages, in blocks that the allocator reuses for the next call."""

from math import prod

import numpy as np
import torch
from torch import Tensor

_LARGE = 4 << 20
_LINE = 64


def empty(shape: tuple[int, ...], dtype: torch.dtype) -> Tensor:
    """Memory for a result, not initialised, on a cache line.

    Torch's allocator asks for aligned blocks, into which a freed one of the same size does not fit, so that large
    results wander through fresh pages for many calls; and it leaves them on small pages, where a gather of random rows
    waits for the page table. numpy advises huge pages.
    """
    count = prod(shape) * dtype.itemsize
    if count < _LARGE:
        return torch.empty(shape, dtype=dtype)
    block = np.empty(count + _LINE, dtype=np.uint8)
    start = -block.ctypes.data % _LINE
    kind = torch.empty(0, dtype=dtype).numpy().dtype
    # shaped by numpy: autograd lets nobody write over what torch calls a view
    return torch.from_numpy(block[start : start + count].view(kind).reshape(shape))


def empty_like(tensor: Tensor) -> Tensor:
    """``empty`` of a tensor's shape and type, contiguous."""
    return empty(tuple(tensor.shape), tensor.dtype)
