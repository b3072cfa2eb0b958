"""Dropout whose mask is a hash of (key, node, column): equal for any threads, order, batch and partition; autograd."""

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from backends.kernels.checks import check_key, check_values
from backends.kernels.dispatch import implementation
from backends.kernels.operand import operand
from datasets.csr import Csr

WORDS = 1 << 32


@dataclass(frozen=True)
class Mask:
    """Which entries dropout retains: those whose 32-bit word, a hash of ``key``, node and column, reaches the bound.

    ``nodes`` int64 [rows] numbers the rows, ``None``: by their position. Retained entries are multiplied by ``scale``.
    Raises ValueError for a ``key`` that is no whole number from 0 to 2^64 - 1.
    """

    rate: float
    key: int
    nodes: Tensor | None = None

    def __post_init__(self) -> None:
        check_key("the key of a mask", self.key)

    @property
    def bound(self) -> int:
        """Words below it are dropped; of all words they are the share ``rate``."""
        return min(round(self.rate * WORDS), WORDS - 1)

    @property
    def scale(self) -> float:
        """1 / (1 - rate), which keeps the mean."""
        return 1.0 / (1.0 - self.rate)


def dropout(x: Tensor, mask: Mask) -> Tensor:
    """Drop entries of x [rows, f] and scale the others; the backward pass computes the mask again; autograd."""
    check_values("x", x)
    if x.dim() != 2:
        raise ValueError(f"x has shape {tuple(x.shape)}: needed are [rows, f]")
    fitting = checked(mask, len(x))
    if fitting is None or x.numel() == 0:
        return x
    out: Tensor = implementation("x", x).dropout(x, fitting)
    return out


def dropout_values(csr: Csr, values: Tensor, mask: Mask) -> Tensor:
    """Drop stored ``values`` [nnz] of a sparse matrix: the same entries that ``dropout`` drops of the dense one."""
    check_values("values", values)
    if values.shape != (csr.nnz,):
        raise ValueError(f"values has shape {tuple(values.shape)}: the matrix stores {csr.nnz}")
    fitting = checked(mask, csr.shape[0])
    if fitting is None or not csr.nnz:
        return values
    out: Tensor = implementation("values", values).dropout_values(operand(csr), values, fitting)
    return out


def checked(mask: Mask | None, rows: int) -> Mask | None:
    """The mask of a matrix of so many rows, ``None`` where it drops nothing; ValueError for one that does not fit."""
    if mask is None:
        return None
    if not 0 <= mask.rate < 1:
        raise ValueError(f"dropout={mask.rate} is not allowed: from 0 to below 1")
    if mask.nodes is not None and mask.nodes.shape != (rows,):
        raise ValueError(f"mask.nodes has shape {tuple(mask.nodes.shape)}: there are {rows} rows")
    if mask.nodes is not None and mask.nodes.dtype != torch.int64:
        raise ValueError(f"mask.nodes is {mask.nodes.dtype}: allowed is int64, call .long() first")
    if mask.rate == 0:
        return None
    return mask if mask.nodes is None else replace(mask, nodes=mask.nodes.contiguous())
