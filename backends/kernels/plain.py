"""Aggregation in plain torch: what runs where the extension is not built, and the scatter form of AGL's base."""

from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from backends.kernels.operand import Operand


def edge_products(matrix: Operand, on_rows: Tensor, on_columns: Tensor) -> Tensor:
    """Inner products of both ends' rows over the last axis, for each edge (a sampled dense-dense product)."""
    return (on_rows[matrix.destinations] * on_columns[matrix.sources]).sum(-1)


class PlainSpmm(torch.autograd.Function):
    """A sparse CSR product whose backward multiplies with a kept transpose."""

    @staticmethod
    def forward(ctx: Any, matrix: Operand, values: Tensor, x: Tensor) -> Tensor:
        """Sum ``values * x`` over in-edges."""
        ctx.matrix = matrix
        ctx.save_for_backward(values, x)
        sparse = torch.sparse_csr_tensor(matrix.indptr, matrix.sources, values, matrix.shape, check_invariants=False)
        return sparse @ x

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[None, Tensor | None, Tensor | None]:
        """Gradients of the values and of ``x``."""
        values, x = ctx.saved_tensors
        matrix: Operand = ctx.matrix
        grad = grad.contiguous()
        grad_values = edge_products(matrix, grad, x) if ctx.needs_input_grad[1] else None
        if not ctx.needs_input_grad[2]:
            return None, grad_values, None
        indptr, rows = (torch.from_numpy(array) for array in (matrix.backward.indptr, matrix.backward.indices))
        turned = values.index_select(0, torch.from_numpy(matrix.permutation))
        sparse = torch.sparse_csr_tensor(indptr, rows, turned, matrix.shape[::-1], check_invariants=False)
        return None, grad_values, sparse @ grad


def scatter_sum(matrix: Operand, x: Tensor, weight: Tensor | None) -> Tensor:
    """Gather a message per edge, then add each to its destination."""
    messages = x[matrix.sources] if weight is None else weight[:, None] * x[matrix.sources]
    return x.new_zeros((matrix.shape[0], x.shape[1])).index_add(0, matrix.destinations, messages)


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


def _largest(matrix: Operand, values: Tensor) -> Tensor:
    """Largest of each row's edges, column by column, [rows, width]; -infinity where there are none."""
    rows = matrix.destinations[:, None].expand_as(values)
    start = values.new_full((matrix.shape[0], values.shape[1]), -torch.inf)
    return start.scatter_reduce(0, rows, values, "amax")


def maximum(matrix: Operand, x: Tensor, weight: Tensor | None) -> Tensor:
    """Largest message of each row's edges, column by column, 0 where there are none; the first of equals is taken."""
    messages = x[matrix.sources] if weight is None else weight[:, None] * x[matrix.sources]
    held = messages.detach()
    wins = (held == _largest(matrix, held)[matrix.destinations]) | held.isnan()
    places = torch.where(wins, torch.arange(matrix.nnz)[:, None], matrix.nnz)
    rows = matrix.destinations[:, None].expand_as(places)
    first = places.new_full((matrix.shape[0], x.shape[1]), matrix.nnz).scatter_reduce(0, rows, places, "amin")
    padded = torch.cat((messages, messages.new_zeros(1, x.shape[1])))
    return padded.gather(0, first)


def scatter_attention(matrix: Operand, z: Tensor, alpha: Tensor) -> Tensor:
    """Weighted sum of messages [nnz, heads, d], scattered."""
    messages = alpha[:, :, None] * z[matrix.sources]
    return z.new_zeros((matrix.shape[0], *z.shape[1:])).index_add(0, matrix.destinations, messages)


def product_attention(matrix: Operand, z: Tensor, alpha: Tensor) -> Tensor:
    """Weighted sum as one sparse product per head."""
    heads = zip(alpha.unbind(1), z.unbind(1), strict=True)
    return torch.stack([PlainSpmm.apply(matrix, a, x.contiguous()) for a, x in heads], 1)
