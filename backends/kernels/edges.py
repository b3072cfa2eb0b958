"""What has a value per edge and head: inner products of both ends' rows, and the softmax over a row's edges."""

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from backends.kernels import plain
from backends.kernels.buffers import empty, empty_like
from backends.kernels.checks import check_heads, check_rows, check_values
from backends.kernels.native import native, workers
from backends.kernels.operand import Half, Operand, operand
from datasets.csr import Csr


def sddmm(csr: Csr, a: Tensor, b: Tensor) -> Tensor:
    """Inner products of both ends' rows of each edge, head by head, to [nnz, heads]; autograd in ``a`` and ``b``.

    ``a`` is [rows, heads, d] and ``b`` [columns, heads, d], or both without heads, which gives [nnz, 1]. float32 or
    float64. Raises ValueError for shapes or types that do not fit (a sampled dense-dense matrix product).
    """
    matrix = operand(csr)
    if a.dim() == b.dim() == 2:
        a, b = a[:, None], b[:, None]
    check_rows("a", a, matrix.shape[0], 3)
    check_rows("b", b, matrix.shape[1], 3)
    check_values("b", b, like=a)
    check_heads("a", a.shape[1])
    if a.shape[1:] != b.shape[1:]:
        raise ValueError(f"a has {tuple(a.shape[1:])} heads and columns, b {tuple(b.shape[1:])}: they must be equal")
    if native is None:
        return plain.edge_products(matrix, a, b)
    out: Tensor = _Sddmm.apply(matrix, a, b)
    return out


def edge_softmax(csr: Csr, logits: Tensor) -> Tensor:
    """Softmax of ``logits`` [nnz, heads] over each row's edges, head by head; autograd in ``logits``.

    A logit of -infinity gets exactly 0. float32 or float64; raises ValueError for a shape or type that does not fit.
    """
    matrix = operand(csr)
    if logits.dim() != 2 or logits.shape[0] != matrix.nnz:
        raise ValueError(f"logits have shape {tuple(logits.shape)}: {matrix.nnz} edges need ({matrix.nnz}, heads)")
    check_values("logits", logits)
    check_heads("logits", logits.shape[1])
    if native is None:
        return plain.edge_softmax(matrix, logits)
    out: Tensor = _EdgeSoftmax.apply(matrix, logits)
    return out


def edge_products(matrix: Operand, on_rows: Tensor, on_columns: Tensor) -> Tensor:
    """Inner products [nnz, heads] of [rows, heads, d] and [columns, heads, d], both contiguous."""
    out = empty((matrix.nnz, on_rows.shape[1]), on_rows.dtype)
    half, width = matrix.forward, on_rows.shape[1] * on_rows.shape[2]
    native.sddmm(half.indptr, half.indices, on_rows, on_columns, out, workers(matrix.nnz, width))
    return out


def _sum_heads(half: Half, factor: Tensor, x: Tensor, place: Any = None) -> Tensor:
    """Sum rows of ``x`` [columns, heads, d] times each edge's ``factor`` [nnz, heads]; ``place`` finds an edge's."""
    out = empty((half.rows, *x.shape[1:]), x.dtype)
    threads = workers(len(half.indices), x.shape[1] * x.shape[2])
    native.sum_heads(half.indptr, half.indices, half.bounds, half.hubs, place, factor, x, out, threads)
    return out


class _Sddmm(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, matrix: Operand, a: Tensor, b: Tensor) -> Tensor:
        a, b = a.detach().contiguous(), b.detach().contiguous()
        ctx.matrix = matrix
        ctx.save_for_backward(a, b)
        return edge_products(matrix, a, b)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[None, Tensor | None, Tensor | None]:
        (a, b), matrix, grad = ctx.saved_tensors, ctx.matrix, grad.contiguous()
        grad_a = _sum_heads(matrix.forward, grad, b) if ctx.needs_input_grad[1] else None
        grad_b = _sum_heads(matrix.backward, grad, a, matrix.permutation) if ctx.needs_input_grad[2] else None
        return None, grad_a, grad_b


class _EdgeSoftmax(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, matrix: Operand, logits: Tensor) -> Tensor:
        logits = logits.detach().contiguous()
        ctx.matrix, ctx.threads = matrix, workers(matrix.nnz, logits.shape[1])
        half, out = matrix.forward, empty_like(logits)
        native.edge_softmax(half.indptr, half.bounds, half.hubs, logits, None, out, ctx.threads)
        ctx.save_for_backward(out)
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[None, Tensor]:
        (out,), half = ctx.saved_tensors, ctx.matrix.forward
        grad_logits = empty_like(out)
        native.edge_softmax(half.indptr, half.bounds, half.hubs, out, grad.contiguous(), grad_logits, ctx.threads)
        return None, grad_logits
