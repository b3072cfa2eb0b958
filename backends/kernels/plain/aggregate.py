"""Aggregation over in-edges in plain torch: sparse products, softmax and maxima."""

from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor
from torch.nn import functional

from backends.kernels.operand import Operand
from backends.kernels.plain.dense_layers import bias_activation

if TYPE_CHECKING:
    from backends.kernels.rows import MatrixRows


def spmm(matrix: Operand, x: Tensor, weight: Tensor | None, reduce: str) -> Tensor:
    """Aggregate ``x`` [columns, f] by ``sum``, ``mean`` or ``max``."""
    if reduce == "max":
        return maximum(matrix, x, weight)
    values = torch.ones(matrix.nnz, dtype=x.dtype) if weight is None else weight
    out: Tensor = _SparseProduct.apply(matrix, values, x)
    return out * matrix.inverse_in_degrees[:, None].to(x.dtype) if reduce == "mean" else out


def spmm_layer(
    matrix: Operand,
    x: Tensor,
    weight: Tensor | None,
    reduce: str,
    own: Tensor | None,
    bias: Tensor,
    activation: str,
    mask: Any,
) -> Tensor:
    """Aggregate, add ``own`` and bias, apply the activation and drop entries."""
    out = spmm(matrix, x, weight, reduce)
    return bias_activation(out if own is None else out + own, bias, activation, False, mask)


def spmm_with_own(
    part: Operand, x: Tensor, weight: Tensor | None, reduce: str, origin: "MatrixRows", with_own: bool
) -> tuple[Tensor, Tensor | None]:
    """Aggregate over copied rows, and with ``with_own`` gather the rows' own entries of ``x``."""
    return spmm(part, x, weight, reduce), x.index_select(0, origin.rows) if with_own else None


def gat(
    matrix: Operand,
    z: Tensor,
    score_src: Tensor,
    score_dst: Tensor,
    score_edge: Tensor | None,
    slope: float,
    dropout: float,
    seed: int | None,
) -> Tensor:
    """Attend over in-edges by one sparse product per head; dropout draws from torch's generator, not from ``seed``."""
    alpha = attention(matrix, score_src, score_dst, score_edge, slope, dropout)
    heads = zip(alpha.unbind(1), z.unbind(1), strict=True)
    return torch.stack([_SparseProduct.apply(matrix, a, x.contiguous()) for a, x in heads], 1)


def gat_layer(
    matrix: Operand,
    z: Tensor,
    score_src: Tensor,
    score_dst: Tensor,
    bias: Tensor,
    activation: str,
    slope: float,
    dropout: float,
    seed: int | None,
    mask: Any,
) -> Tensor:
    """Attend, then add bias, apply the activation and drop entries: [rows, heads * d]."""
    out = gat(matrix, z, score_src, score_dst, None, slope, dropout, seed)
    return bias_activation(out.flatten(1), bias, activation, False, mask)


def sddmm(matrix: Operand, a: Tensor, b: Tensor) -> Tensor:
    """Inner products of both ends' rows over the last axis, for each edge."""
    return (a[matrix.destinations] * b[matrix.sources]).sum(-1)


def attention(
    matrix: Operand, score_src: Tensor, score_dst: Tensor, score_edge: Tensor | None, slope: float, dropout: float
) -> Tensor:
    """Softmax over in-edges of the leaky scores, with dropout, [nnz, heads]."""
    raw = score_src[matrix.sources] + score_dst[matrix.destinations]
    score = functional.leaky_relu(raw if score_edge is None else raw + score_edge, slope)
    return functional.dropout(edge_softmax(matrix, score), dropout, dropout > 0)


def edge_softmax(matrix: Operand, logits: Tensor) -> Tensor:
    """Softmax over each row's edges, [nnz, heads]."""
    exponent = torch.exp(logits - _largest(matrix, logits.detach())[matrix.destinations])
    total = exponent.new_zeros((matrix.shape[0], logits.shape[1])).index_add(0, matrix.destinations, exponent)
    return exponent / total[matrix.destinations]


def maximum(matrix: Operand, x: Tensor, weight: Tensor | None) -> Tensor:
    """Largest message of each row's edges, column by column, 0 where there are none; the first of equals is taken."""
    messages = x[matrix.sources] if weight is None else weight[:, None] * x[matrix.sources]
    values = messages.detach()
    wins = (values == _largest(matrix, values)[matrix.destinations]) | values.isnan()
    places = torch.where(wins, torch.arange(matrix.nnz)[:, None], matrix.nnz)
    rows = matrix.destinations[:, None].expand_as(places)
    first = places.new_full((matrix.shape[0], x.shape[1]), matrix.nnz).scatter_reduce(0, rows, places, "amin")
    padded = torch.cat((messages, messages.new_zeros(1, x.shape[1])))
    return padded.gather(0, first)


def _largest(matrix: Operand, values: Tensor) -> Tensor:
    """Largest of each row's edges, column by column, [rows, width]; -infinity where there are none."""
    rows = matrix.destinations[:, None].expand_as(values)
    start = values.new_full((matrix.shape[0], values.shape[1]), -torch.inf)
    return start.scatter_reduce(0, rows, values, "amax")


class _SparseProduct(torch.autograd.Function):
    """A sparse CSR product whose backward pass multiplies with the cached transpose."""

    @staticmethod
    def forward(ctx: Any, matrix: Operand, values: Tensor, x: Tensor) -> Tensor:
        ctx.matrix = matrix
        ctx.save_for_backward(values, x)
        sparse = torch.sparse_csr_tensor(matrix.indptr, matrix.sources, values, matrix.shape, check_invariants=False)
        return sparse @ x

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[None, Tensor | None, Tensor | None]:
        values, x = ctx.saved_tensors
        matrix: Operand = ctx.matrix
        grad = grad.contiguous()
        grad_values = sddmm(matrix, grad, x) if ctx.needs_input_grad[1] else None
        if not ctx.needs_input_grad[2]:
            return None, grad_values, None
        indptr, rows = (torch.from_numpy(array) for array in (matrix.backward.indptr, matrix.backward.indices))
        transposed = values.index_select(0, torch.from_numpy(matrix.permutation))
        sparse = torch.sparse_csr_tensor(indptr, rows, transposed, matrix.shape[::-1], check_invariants=False)
        return None, grad_values, sparse @ grad
