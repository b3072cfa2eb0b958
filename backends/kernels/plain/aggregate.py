"""Aggregation over in-edges in plain torch: sparse products, softmax and maxima."""

from dataclasses import replace
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from backends.kernels.operand import Operand
from backends.kernels.plain.dropout import dropout


def spmm(matrix: Operand, x: Tensor, weight: Tensor | None, reduce: str) -> Tensor:
    """Aggregate ``x`` [columns, f] by ``sum``, ``mean`` or ``max``."""
    if reduce == "max":
        return maximum(matrix, x, weight)
    values = x.new_ones(matrix.nnz) if weight is None else weight
    out: Tensor = _SparseProduct.apply(matrix, values, x)
    return out * matrix.on(x.device).inverse_in_degrees(x.dtype)[:, None] if reduce == "mean" else out


@torch.no_grad()
def product(matrix: Operand, x: Tensor, weight: Tensor | None, addend: Tensor | None, transposed: bool) -> Tensor:
    """Weighted sum over the edges of either direction, plus ``addend``."""
    edges = matrix.on(x.device)
    values = x.new_ones(matrix.nnz) if weight is None else weight
    if transposed:
        starts, indices, values = edges.transposed_indptr, edges.transposed_indices, values[edges.permutation]
    else:
        starts, indices = edges.indptr, edges.sources
    shape = matrix.shape[::-1] if transposed else matrix.shape
    out = torch.sparse_csr_tensor(starts, indices, values, shape, check_invariants=False) @ x
    return out if addend is None else out + addend


def gat(
    matrix: Operand,
    z: Tensor,
    score_src: Tensor,
    score_dst: Tensor,
    score_edge: Tensor | None,
    slope: float,
    edge_mask: Any,
) -> Tensor:
    """Attend over in-edges by one sparse product per head; ``edge_mask`` drops heads of edges."""
    alpha = attention(matrix, score_src, score_dst, score_edge, slope, edge_mask)
    heads = zip(alpha.unbind(1), z.expand(-1, alpha.shape[1], -1).unbind(1), strict=True)
    return torch.stack([_SparseProduct.apply(matrix, a, x.contiguous()) for a, x in heads], 1)


def sddmm(matrix: Operand, a: Tensor, b: Tensor) -> Tensor:
    """Inner products of both ends' rows over the last axis, for each edge."""
    edges = matrix.on(a.device)
    return (a[edges.destinations] * b[edges.sources]).sum(-1)


def attention(
    matrix: Operand, score_src: Tensor, score_dst: Tensor, score_edge: Tensor | None, slope: float, edge_mask: Any
) -> Tensor:
    """Softmax over in-edges of the leaky scores, [nnz, heads], with dropout by the edges' ids."""
    edges = matrix.on(score_src.device)
    raw = score_src[edges.sources] + score_dst[edges.destinations]
    score = functional.leaky_relu(raw if score_edge is None else raw + score_edge, slope)
    alpha = edge_softmax(matrix, score)
    return alpha if edge_mask is None else dropout(alpha, replace(edge_mask, nodes=edges.numbers))


def edge_softmax(matrix: Operand, logits: Tensor) -> Tensor:
    """Softmax over each row's edges, [nnz, heads]."""
    destinations = matrix.on(logits.device).destinations
    exponent = torch.exp(logits - _largest(matrix, logits.detach())[destinations])
    total = exponent.new_zeros((matrix.shape[0], logits.shape[1])).index_add(0, destinations, exponent)
    return exponent / total[destinations]


def maximum(matrix: Operand, x: Tensor, weight: Tensor | None) -> Tensor:
    """Largest message of each row's edges, column by column, 0 where there are none; the first of equals is taken."""
    edges = matrix.on(x.device)
    messages = x[edges.sources] if weight is None else weight[:, None] * x[edges.sources]
    values = messages.detach()
    wins = (values == _largest(matrix, values)[edges.destinations]) | values.isnan()
    places = torch.where(wins, torch.arange(matrix.nnz, device=x.device)[:, None], matrix.nnz)
    rows = edges.destinations[:, None].expand_as(places)
    first = places.new_full((matrix.shape[0], x.shape[1]), matrix.nnz).scatter_reduce(0, rows, places, "amin")
    padded = torch.cat((messages, messages.new_zeros(1, x.shape[1])))
    return padded.gather(0, first)


def _largest(matrix: Operand, values: Tensor) -> Tensor:
    """Largest of each row's edges, column by column, [rows, width]; -infinity where there are none."""
    rows = matrix.on(values.device).destinations[:, None].expand_as(values)
    start = values.new_full((matrix.shape[0], values.shape[1]), -torch.inf)
    return start.scatter_reduce(0, rows, values, "amax")


class _SparseProduct(torch.autograd.Function):
    """A sparse CSR product whose backward pass multiplies with the cached transpose."""

    @staticmethod
    def forward(ctx: Any, matrix: Operand, values: Tensor, x: Tensor) -> Tensor:
        ctx.matrix = matrix
        ctx.save_for_backward(values, x)
        edges = matrix.on(x.device)
        sparse = torch.sparse_csr_tensor(edges.indptr, edges.sources, values, matrix.shape, check_invariants=False)
        return sparse @ x

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[None, Tensor | None, Tensor | None]:
        values, x = ctx.saved_tensors
        matrix: Operand = ctx.matrix
        grad = grad.contiguous()
        grad_values = sddmm(matrix, grad, x) if ctx.needs_input_grad[1] else None
        if not ctx.needs_input_grad[2]:
            return None, grad_values, None
        edges = matrix.on(grad.device)
        indptr, rows = edges.transposed_indptr, edges.transposed_indices
        transposed = values.index_select(0, edges.permutation)
        sparse = torch.sparse_csr_tensor(indptr, rows, transposed, matrix.shape[::-1], check_invariants=False)
        return None, grad_values, sparse @ grad
