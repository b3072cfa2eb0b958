"""Inner products over edges and softmax over each row's edges, with gradients, by the compiled extension."""

from typing import Any

import torch
from torch import Tensor

from backends.kernels.buffers import empty, empty_like
from backends.kernels.checks import without_second_derivative
from backends.kernels.extension import extension
from backends.kernels.operand import Direction, Operand


def sddmm(matrix: Operand, a: Tensor, b: Tensor) -> Tensor:
    """Inner products [nnz, heads] of both ends' rows [rows, heads, d] and [columns, heads, d]."""
    out: Tensor = _Sddmm.apply(matrix, a, b)
    return out


def edge_softmax(matrix: Operand, logits: Tensor) -> Tensor:
    """Softmax of ``logits`` [nnz, heads] over each row's edges."""
    out: Tensor = _EdgeSoftmax.apply(matrix, logits)
    return out


def edge_products(matrix: Operand, on_rows: Tensor, on_columns: Tensor) -> Tensor:
    """Inner products [nnz, heads] of contiguous tensors, without autograd."""
    out = empty((matrix.nnz, on_rows.shape[1]), on_rows.dtype)
    direction, width = matrix.forward, on_rows.shape[1] * on_rows.shape[2]
    extension.sddmm(direction.indptr, direction.indices, on_rows, on_columns, out, direction.workers(width))
    return out


def _sum_heads(direction: Direction, factor: Tensor, x: Tensor, place: Any = None) -> Tensor:
    """Sum rows of ``x`` [columns, heads, d] times the factor of each edge, at ``place[edge]`` of ``factor``."""
    out = empty((direction.rows, *x.shape[1:]), x.dtype)
    extension.sum_heads(
        direction.indptr, direction.indices, direction.bounds, direction.hubs, place, factor, x, out,
        direction.workers(x.shape[1] * x.shape[2]),
    )  # fmt: skip
    return out


class _Sddmm(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, matrix: Operand, a: Tensor, b: Tensor) -> Tensor:
        a, b = a.detach().contiguous(), b.detach().contiguous()
        ctx.matrix = matrix
        ctx.save_for_backward(a, b)
        return edge_products(matrix, a, b)

    @staticmethod
    @without_second_derivative
    def backward(ctx: Any, grad: Tensor) -> tuple[None, Tensor | None, Tensor | None]:
        (a, b), matrix, grad = ctx.saved_tensors, ctx.matrix, grad.contiguous()
        grad_a = _sum_heads(matrix.forward, grad, b) if ctx.needs_input_grad[1] else None
        grad_b = _sum_heads(matrix.backward, grad, a, matrix.permutation) if ctx.needs_input_grad[2] else None
        return None, grad_a, grad_b


class _EdgeSoftmax(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, matrix: Operand, logits: Tensor) -> Tensor:
        logits = logits.detach().contiguous()
        rows, out = matrix.forward, empty_like(logits)
        ctx.matrix, ctx.threads = matrix, rows.workers(logits.shape[1])
        extension.edge_softmax(rows.indptr, rows.bounds, rows.hubs, logits, None, out, ctx.threads)
        ctx.save_for_backward(out)
        return out

    @staticmethod
    @without_second_derivative
    def backward(ctx: Any, grad: Tensor) -> tuple[None, Tensor]:
        (out,), rows = ctx.saved_tensors, ctx.matrix.forward
        grad_logits = empty_like(out)
        extension.edge_softmax(rows.indptr, rows.bounds, rows.hubs, out, grad.contiguous(), grad_logits, ctx.threads)
        return None, grad_logits
