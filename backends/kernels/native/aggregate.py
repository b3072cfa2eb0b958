"""Sums, means and maxima over in-edges by the compiled extension; backward passes use the cached transpose."""

from typing import Any

import torch
from torch import Tensor

from backends.kernels.buffers import empty
from backends.kernels.extension import arrays, extension, workers
from backends.kernels.native.edges import edge_products
from backends.kernels.native.maximum import MaximumFunction
from backends.kernels.operand import Direction, Operand


def spmm(matrix: Operand, x: Tensor, weight: Tensor | None, reduce: str) -> Tensor:
    """Aggregate ``x`` [columns, f] by ``sum``, ``mean`` or ``max``."""
    out: Tensor = (
        MaximumFunction.apply(matrix, weight, x) if reduce == "max" else _Sum.apply(matrix, weight, x, reduce == "mean")
    )
    return out


def multiply(direction: Direction, x: Tensor, weight: Tensor | None, row_scale: Tensor | None) -> Tensor:
    """Sum rows of ``x`` over the edges of one direction, [rows, width]."""
    x = x.contiguous()
    out = empty((direction.rows, x.shape[1]), x.dtype)
    extension.spmm(
        direction.indptr, direction.indices, direction.bounds, direction.hubs, *arrays(x, weight, row_scale, out),
        workers(len(direction.indices), x.shape[1]),
    )  # fmt: skip
    return out


class _Sum(torch.autograd.Function):
    """Sum or mean over in-edges, weighted or not."""

    @staticmethod
    def forward(ctx: Any, matrix: Operand, weight: Tensor | None, x: Tensor, mean: bool) -> Tensor:
        ctx.matrix, ctx.mean = matrix, mean
        needed = ctx.needs_input_grad[1]
        ctx.save_for_backward(weight, x if needed else None)
        scale = matrix.inverse_in_degrees.to(x.dtype) if mean else None
        return multiply(matrix.forward, x.detach(), None if weight is None else weight.detach().contiguous(), scale)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[None, Tensor | None, Tensor | None, None]:
        weight, x = ctx.saved_tensors
        matrix: Operand = ctx.matrix
        grad_weight = grad_x = None
        if ctx.needs_input_grad[1]:
            rows = grad * matrix.inverse_in_degrees.to(grad.dtype)[:, None] if ctx.mean else grad
            grad_weight = edge_products(matrix, rows.contiguous()[:, None], x.detach().contiguous()[:, None])[:, 0]
        if ctx.needs_input_grad[2]:
            grad_x = multiply(matrix.backward, grad, _transposed_weight(matrix, weight, ctx.mean, grad.dtype), None)
        return None, grad_weight, grad_x, None


def _transposed_weight(matrix: Operand, weight: Tensor | None, mean: bool, dtype: torch.dtype) -> Tensor | None:
    """Weights in the transpose's edge order; those of a weight without gradient are cached with the matrix."""
    if weight is None:
        return matrix.mean_weights_backward.to(dtype) if mean else None
    weights = matrix.transposed_weight(weight)
    return weights * matrix.mean_weights_backward.to(dtype) if mean else weights
