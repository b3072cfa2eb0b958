"""Dropout in plain torch: the words of the compiled extension, in 64-bit integers."""

from typing import Any

import numpy as np
import torch
from torch import Tensor

from backends.kernels.operand import Operand
from datasets.randomness import keyed

_LOW = 0xFFFFFFFF


def dropout(x: Tensor, mask: Any) -> Tensor:
    """Drop entries of x [rows, f]."""
    rows, columns = torch.arange(x.shape[0])[:, None], torch.arange(x.shape[1])[None]
    return torch.where(_retains(mask, rows, columns), x * mask.scale, 0.0)


def dropout_values(matrix: Operand, values: Tensor, mask: Any) -> Tensor:
    """Drop stored values [nnz]."""
    return torch.where(_retains(mask, matrix.destinations, matrix.sources), values * mask.scale, 0.0)


def _retains(mask: Any, rows: Tensor, columns: Tensor) -> Tensor:
    """Whether entries are retained, for rows and columns of one shape or of shapes that broadcast."""
    nodes = rows if mask.nodes is None else mask.nodes[rows]
    keys = keyed(mask.key, nodes.numpy())
    halves = keys & np.uint64(_LOW), keys >> np.uint64(32)
    first, second = (torch.from_numpy(half.astype(np.int64)) for half in halves)
    word = (columns * 0x9E3779B1 + first) & _LOW
    word = ((word ^ (word >> 16)) * 0x7FEB352D) & _LOW
    word ^= second
    word = ((word ^ (word >> 15)) * 0x846CA68B) & _LOW
    return torch.ge(word, mask.bound)
