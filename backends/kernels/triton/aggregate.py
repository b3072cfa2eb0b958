"""Sums and means over in-edges in Triton, with autograd: rows of edges, or dense tiles and a rest of edges."""

from typing import Any

import torch
from torch import Tensor

from backends.kernels import plain
from backends.kernels.checks import without_second_derivative
from backends.kernels.operand import Operand
from backends.kernels.triton.layout import Side, side_of
from backends.kernels.triton.sums import add_rows
from backends.kernels.triton.tiles import multiply_tiles


def multiply(side: Side, x: Tensor, weight: Tensor | None, scale: Tensor | None = None) -> Tensor:
    """Sum rows of ``x`` over the edges of one direction and scale them: [rows, width]."""
    tiles = side.direction.tiles.get(x.shape[1])
    if tiles is None:
        return add_rows(side, x, weight, scale)
    out = multiply_tiles(tiles, x.contiguous(), weight)
    return out if scale is None else out.mul_(scale[:, None])


def spmm(matrix: Operand, x: Tensor, weight: Tensor | None, reduce: str) -> Tensor:
    """Aggregate ``x`` [columns, f] by ``sum``, ``mean`` or ``max``."""
    if reduce == "max":
        return plain.spmm(matrix, x, weight, reduce)
    out: Tensor = _Sum.apply(matrix, weight, x, reduce == "mean")
    return out


def product(matrix: Operand, x: Tensor, weight: Tensor | None, addend: Tensor | None, transposed: bool) -> Tensor:
    """Weighted sum over the edges of either direction, plus ``addend``."""
    if transposed:
        weight = None if weight is None else matrix.transposed_weight(weight)
    out = multiply(side_of(matrix, x.device, transposed), x, weight)
    return out if addend is None else out.add_(addend)


class _Sum(torch.autograd.Function):
    """Sum or mean over in-edges, weighted or not."""

    @staticmethod
    def forward(ctx: Any, matrix: Operand, weight: Tensor | None, x: Tensor, mean: bool) -> Tensor:
        ctx.matrix, ctx.mean = matrix, mean
        ctx.save_for_backward(weight, x if ctx.needs_input_grad[1] else None)
        scale = matrix.on(x.device).inverse_in_degrees(x.dtype) if mean else None
        return multiply(side_of(matrix, x.device), x.detach(), None if weight is None else weight.contiguous(), scale)

    @staticmethod
    @without_second_derivative
    def backward(ctx: Any, grad: Tensor) -> tuple[None, Tensor | None, Tensor | None, None]:
        weight, x = ctx.saved_tensors
        matrix: Operand = ctx.matrix
        grad_weight = grad_x = None
        if ctx.needs_input_grad[1]:
            rows = grad * matrix.on(grad.device).inverse_in_degrees(grad.dtype)[:, None] if ctx.mean else grad
            grad_weight = plain.sddmm(matrix, rows[:, None], x[:, None])[:, 0]
        if ctx.needs_input_grad[2]:
            weights = matrix.backward_weight(weight, ctx.mean, grad)
            grad_x = multiply(side_of(matrix, grad.device, transposed=True), grad, weights)
        return None, grad_weight, grad_x, None
