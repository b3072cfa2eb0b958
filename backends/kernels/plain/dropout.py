"""Dropout in plain torch: the words of the compiled extension, in 64-bit integers."""

from typing import Any

import torch
from torch import Tensor

from backends.kernels.operand import Operand
from datasets.randomness import GAMMA, MIX_1, MIX_2

_LOW = 0xFFFFFFFF


def dropout(x: Tensor, mask: Any) -> Tensor:
    """Drop entries of x [rows, f]."""
    rows, columns = (torch.arange(size, device=x.device) for size in x.shape)
    return torch.where(_retains(mask, rows[:, None], columns[None]), x * mask.scale, 0.0)


def dropout_values(matrix: Operand, values: Tensor, mask: Any) -> Tensor:
    """Drop stored values [nnz]."""
    edges = matrix.on(values.device)
    return torch.where(_retains(mask, edges.destinations, edges.sources), values * mask.scale, 0.0)


def _retains(mask: Any, rows: Tensor, columns: Tensor) -> Tensor:
    """Whether entries are retained, for rows and columns of one shape or of shapes that broadcast."""
    keys = _keyed(mask.key, rows if mask.nodes is None else mask.nodes[rows])
    word = (columns * 0x9E3779B1 + (keys & _LOW)) & _LOW
    word = ((word ^ (word >> 16)) * 0x7FEB352D) & _LOW
    word ^= _shifted(keys, 32)
    word = ((word ^ (word >> 15)) * 0x846CA68B) & _LOW
    return torch.ge(word, mask.bound)


def _keyed(key: int, ids: Tensor) -> Tensor:
    """The words of ``datasets.randomness.keyed`` in the bits of int64, whose products wrap as unsigned ones do."""
    return _mix(_mix(ids * _signed(GAMMA) + _signed(key)) + _signed(GAMMA))


def _mix(word: Tensor) -> Tensor:
    word = (word ^ _shifted(word, 30)) * _signed(MIX_1)
    word = (word ^ _shifted(word, 27)) * _signed(MIX_2)
    return word ^ _shifted(word, 31)


def _shifted(word: Tensor, bits: int) -> Tensor:
    """Shift to the right with zeros."""
    return (word >> bits) & ((1 << (64 - bits)) - 1)


def _signed(word: int) -> int:
    """The int64 of the same bits."""
    return word - (1 << 64) if word >= 1 << 63 else word
