"""Aggregation over in-edges with autograd: row-parallel products on a kept transpose, or scatters.

Row-parallel means that all edges of a destination belong to one thread, so no two threads write the same row
(AGL, section 3.3.2, "edge partitioning"); the scatter form is that paper's base.
"""

import weakref
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from datasets.csr import Csr


@dataclass
class _Operand:
    """Torch views of a Csr and of its transpose, made once per matrix."""

    indptr: Tensor
    indices: Tensor
    destinations: Tensor
    shape: tuple[int, int]
    transposed_indptr: Tensor
    transposed_indices: Tensor
    permutation: Tensor
    in_degrees: Tensor


_OPERANDS: "weakref.WeakKeyDictionary[Csr, _Operand]" = weakref.WeakKeyDictionary()


def _tensor(array: Any) -> Tensor:
    return torch.from_numpy(np.array(array, dtype=np.int64))


def operand(csr: Csr) -> _Operand:
    """Return the torch form of ``csr`` and its transpose, built at the first call and kept as long as it lives."""
    held = _OPERANDS.get(csr)
    if held is None:
        flipped, permutation = csr.transpose
        held = _Operand(
            _tensor(csr.indptr),
            _tensor(csr.indices),
            _tensor(csr.destinations),
            csr.shape,
            _tensor(flipped.indptr),
            _tensor(flipped.indices),
            _tensor(permutation),
            torch.from_numpy(np.maximum(csr.in_degrees, 1).astype(np.float32)),
        )
        _OPERANDS[csr] = held
    return held


def _product(matrix: _Operand, values: Tensor, x: Tensor) -> Tensor:
    sparse = torch.sparse_csr_tensor(matrix.indptr, matrix.indices, values, matrix.shape, check_invariants=False)
    return sparse @ x


def _transposed_product(matrix: _Operand, values: Tensor, y: Tensor) -> Tensor:
    shape = (matrix.shape[1], matrix.shape[0])
    sparse = torch.sparse_csr_tensor(
        matrix.transposed_indptr, matrix.transposed_indices, values[matrix.permutation], shape, check_invariants=False
    )
    return sparse @ y


def _edge_products(matrix: _Operand, on_rows: Tensor, on_columns: Tensor) -> Tensor:
    """Inner product of both ends' rows for each edge, [nnz] (a sampled dense-dense product)."""
    return (on_rows[matrix.destinations] * on_columns[matrix.indices]).sum(-1)


class _Spmm(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, matrix: _Operand, values: Tensor, x: Tensor) -> Tensor:
        ctx.matrix = matrix
        ctx.save_for_backward(values, x)
        return _product(matrix, values, x)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[None, Tensor | None, Tensor | None]:
        values, x = ctx.saved_tensors
        grad = grad.contiguous()
        grad_values = _edge_products(ctx.matrix, grad, x) if ctx.needs_input_grad[1] else None
        grad_x = _transposed_product(ctx.matrix, values, grad) if ctx.needs_input_grad[2] else None
        return None, grad_values, grad_x


def spmm(csr: Csr, x: Tensor, weight: Tensor | None = None, reduce: str = "sum", row_parallel: bool = True) -> Tensor:
    """Aggregate rows of ``x`` [columns, f] over in-edges to [rows, f]; autograd in ``x`` and ``weight`` [nnz].

    ``reduce`` is ``sum`` or ``mean`` (0 for a row without edges).
    """
    if reduce not in ("sum", "mean"):
        raise ValueError(f"reduce={reduce!r} is unknown: allowed are sum, mean")
    if x.shape[0] != csr.shape[1]:
        raise ValueError(f"x has {x.shape[0]} rows, the matrix has {csr.shape[1]} columns: they must be equal")
    matrix = operand(csr)
    if row_parallel:
        values = torch.ones(csr.nnz, dtype=x.dtype) if weight is None else weight
        out: Tensor = _Spmm.apply(matrix, values, x)
    else:
        messages = x[matrix.indices] if weight is None else weight[:, None] * x[matrix.indices]
        out = x.new_zeros((csr.shape[0], x.shape[1])).index_add(0, matrix.destinations, messages)
    return out / matrix.in_degrees[:, None].to(x.dtype) if reduce == "mean" else out


def _row_max(matrix: _Operand, score: Tensor) -> Tensor:
    """Largest score of each destination, [rows, heads]; without autograd, for it cancels in the softmax."""
    rows = matrix.destinations[:, None].expand_as(score)
    start = torch.full((matrix.shape[0], score.shape[1]), -torch.inf, dtype=score.dtype)
    return start.scatter_reduce(0, rows, score.detach(), "amax")


def gat(
    csr: Csr,
    z: Tensor,
    score_src: Tensor,
    score_dst: Tensor,
    slope: float = 0.2,
    dropout: float = 0.0,
    row_parallel: bool = True,
) -> Tensor:
    """Attend over in-edges: z [columns, heads, d], scores [columns, heads] and [rows, heads] -> [rows, heads, d]."""
    if z.shape[1] == 0:
        raise ValueError("z has 0 heads: at least one is needed")
    matrix = operand(csr)
    score = functional.leaky_relu(score_src[matrix.indices] + score_dst[matrix.destinations], slope)
    exponent = torch.exp(score - _row_max(matrix, score)[matrix.destinations])
    total = exponent.new_zeros((csr.shape[0], z.shape[1])).index_add(0, matrix.destinations, exponent)
    alpha = functional.dropout(exponent / total[matrix.destinations], dropout, dropout > 0)
    if not row_parallel:
        messages = alpha[:, :, None] * z[matrix.indices]
        return z.new_zeros((csr.shape[0], *z.shape[1:])).index_add(0, matrix.destinations, messages)
    columns = [_Spmm.apply(matrix, a, x.contiguous()) for a, x in zip(alpha.unbind(1), z.unbind(1), strict=True)]
    return torch.stack(columns, 1)
