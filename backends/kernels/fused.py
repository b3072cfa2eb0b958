"""Autograd over the native kernels: buffers, the kept transpose, and nothing computed twice that is cheap to keep."""

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from backends.kernels.buffers import empty, empty_like
from backends.kernels.edges import edge_products
from backends.kernels.native import native
from backends.kernels.native import workers as _workers
from backends.kernels.operand import Half, Operand


def multiply(half: Half, x: Tensor, weight: Tensor | None, row_scale: Tensor | None) -> Tensor:
    """Sum rows of ``x`` over a half's edges, [rows, width]."""
    x = x.contiguous()
    out = empty((half.rows, x.shape[1]), x.dtype)
    workers = _workers(len(half.indices), x.shape[1])
    native.spmm(half.indptr, half.indices, half.bounds, half.hubs, x, weight, row_scale, out, workers)
    return out


class NativeSpmm(torch.autograd.Function):
    """Sum or mean over in-edges, weighted or not."""

    @staticmethod
    def forward(ctx: Any, matrix: Operand, weight: Tensor | None, x: Tensor, mean: bool) -> Tensor:
        """Aggregate ``x`` [columns, width]."""
        ctx.matrix, ctx.mean = matrix, mean
        needed = ctx.needs_input_grad[1]
        ctx.save_for_backward(weight, x if needed else None)
        scale = matrix.inverse_in_degrees.to(x.dtype) if mean else None
        return multiply(matrix.forward, x.detach(), None if weight is None else weight.detach().contiguous(), scale)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[None, Tensor | None, Tensor | None, None]:
        """Gradients of the weight and of ``x``."""
        weight, x = ctx.saved_tensors
        matrix: Operand = ctx.matrix
        grad_weight = grad_x = None
        if ctx.needs_input_grad[1]:
            rows = grad * matrix.inverse_in_degrees.to(grad.dtype)[:, None] if ctx.mean else grad
            grad_weight = edge_products(matrix, rows.contiguous()[:, None], x.detach().contiguous()[:, None])[:, 0]
        if ctx.needs_input_grad[2]:
            grad_x = multiply(matrix.backward, grad, _turned_weight(matrix, weight, ctx.mean, grad.dtype), None)
        return None, grad_weight, grad_x, None


def _turned_weight(matrix: Operand, weight: Tensor | None, mean: bool, dtype: torch.dtype) -> Tensor | None:
    """Weights in the transpose's edge order; a fixed weight's are kept with the matrix."""
    if weight is None:
        return matrix.mean_weights_backward.to(dtype) if mean else None
    turned = matrix.turned(weight)
    return turned * matrix.mean_weights_backward.to(dtype) if mean else turned


def _array(tensor: Tensor | None) -> Any:
    """The numpy view of a tensor: handed to native code in 0.6 us, the tensor itself takes 3."""
    return None if tensor is None else tensor.numpy()


class NativeGat(torch.autograd.Function):
    """Fused attention; keeps the output, each row's largest score and its sum of exponentials."""

    @staticmethod
    def forward(
        ctx: Any,
        matrix: Operand,
        z: Tensor,
        score_src: Tensor,
        score_dst: Tensor,
        score_edge: Tensor | None,
        slope: float,
        dropout: float,
        seed: int,
    ) -> Tensor:
        """Attend: [rows, heads, d]."""
        z, score_src, score_dst = (part.detach().contiguous() for part in (z, score_src, score_dst))
        score_edge = None if score_edge is None else score_edge.detach().contiguous()
        half, heads = matrix.forward, z.shape[1]
        out = empty((matrix.shape[0], *z.shape[1:]), z.dtype)
        row_max, row_sum = (empty((matrix.shape[0], heads), z.dtype) for _ in range(2))
        workers = _workers(matrix.nnz, z.shape[1] * z.shape[2])
        native.gat_forward(
            half.indptr, half.indices, half.bounds, half.hubs, *map(_array, (z, score_src, score_dst, score_edge)),
            slope, dropout, seed, *map(_array, (row_max, row_sum, out)), workers,
        )  # fmt: skip
        ctx.matrix, ctx.settings = matrix, (slope, dropout, seed)
        ctx.save_for_backward(z, score_src, score_dst, score_edge, row_max, row_sum, out)
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[None, Tensor, Tensor, Tensor, Tensor | None, None, None, None]:
        """Gradients of ``z`` and of the scores."""
        z, score_src, score_dst, score_edge, row_max, row_sum, out = ctx.saved_tensors
        matrix: Operand = ctx.matrix
        grads = [empty_like(part) for part in (z, score_src, score_dst)]
        grad_edge = empty_like(score_edge) if ctx.needs_input_grad[4] else None
        half = matrix.backward
        native.gat_backward(
            half.indptr, half.indices, half.bounds, half.hubs, matrix.permutation, matrix.forward.indptr,
            matrix.inverse, matrix.forward.bounds, *map(_array, (z, score_src, score_dst, score_edge)), *ctx.settings,
            *map(_array, (row_max, row_sum, out, grad.contiguous(), *grads, grad_edge)),
            _workers(matrix.nnz, z.shape[1] * z.shape[2]),
        )  # fmt: skip
        grad_z, grad_src, grad_dst = grads
        return None, grad_z, grad_src, grad_dst, grad_edge, None, None, None
