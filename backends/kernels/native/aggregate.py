"""Sums, means and maxima over in-edges by the compiled extension; backward passes use the cached transpose."""

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from backends.kernels.buffers import empty
from backends.kernels.checks import ACTIVATIONS, without_second_derivative
from backends.kernels.extension import arrays, extension, workers
from backends.kernels.native.edges import edge_products
from backends.kernels.native.epilogue import finish, gradients
from backends.kernels.native.maximum import MaximumFunction
from backends.kernels.operand import Direction, Operand


def spmm(matrix: Operand, x: Tensor, weight: Tensor | None, reduce: str) -> Tensor:
    """Aggregate ``x`` [columns, f] by ``sum``, ``mean`` or ``max``."""
    out: Tensor = (
        MaximumFunction.apply(matrix, weight, x) if reduce == "max" else _Sum.apply(matrix, weight, x, reduce == "mean")
    )
    return out


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
    """Aggregate, add ``own`` and bias, apply the activation and drop entries, in one node of autograd."""
    layer = _Layer(matrix, weight, reduce == "mean", ACTIVATIONS.index(activation), mask)
    out: Tensor = _SumLayer.apply(layer, x, own, bias)
    return out


def product(matrix: Operand, x: Tensor, weight: Tensor | None, addend: Tensor | None, transposed: bool) -> Tensor:
    """Weighted sum over the edges of either direction, plus ``addend``."""
    if transposed:
        weight = None if weight is None else matrix.transposed_weight(weight)
    side = matrix.backward if transposed else matrix.forward
    return multiply(side, x, weight, None, None if addend is None else addend.contiguous())


def multiply(
    direction: Direction, x: Tensor, weight: Tensor | None, row_scale: Tensor | None, addend: Tensor | None = None
) -> Tensor:
    """Sum rows of ``x`` over the edges of one direction, scale them and add ``addend``: [rows, width]."""
    x = x.contiguous()
    if x.shape[1] in direction.tiles:
        return _multiply_tiles(direction.tiles[x.shape[1]], x, weight, row_scale, addend)
    out = empty((direction.rows, x.shape[1]), x.dtype)
    extension.spmm(
        direction.indptr, direction.indices, direction.bounds, direction.hubs,
        *arrays(x, weight, row_scale, addend, out), direction.panels.get(x.shape[1]),
        direction.workers(x.shape[1]),
    )  # fmt: skip
    return out


def _multiply_tiles(
    tiles: Any, x: Tensor, weight: Tensor | None, row_scale: Tensor | None, addend: Tensor | None
) -> Tensor:
    """The same over a direction's dense tiles and the rest of its edges."""
    values, rest_weight = tiles.split(weight, x.dtype)
    out = multiply(tiles.rest, x, rest_weight, None, addend if row_scale is None else None)
    extension.add_tiles(tiles.starts, tiles.columns, *arrays(values, x, out), workers(values.numel(), x.shape[1]))
    if row_scale is None:
        return out
    out.mul_(row_scale[:, None])
    return out if addend is None else out.add_(addend)


class _Sum(torch.autograd.Function):
    """Sum or mean over in-edges, weighted or not."""

    @staticmethod
    def forward(ctx: Any, matrix: Operand, weight: Tensor | None, x: Tensor, mean: bool) -> Tensor:
        ctx.matrix, ctx.mean = matrix, mean
        needed = ctx.needs_input_grad[1]
        ctx.save_for_backward(weight, x if needed else None)
        scale = matrix.on(x.device).inverse_in_degrees(x.dtype) if mean else None
        if weight is not None:  # what is kept of equal weights is found by the tensor itself
            weight = (weight.detach() if weight.requires_grad else weight).contiguous()
        return multiply(matrix.forward, x.detach(), weight, scale)

    @staticmethod
    @without_second_derivative
    def backward(ctx: Any, grad: Tensor) -> tuple[None, Tensor | None, Tensor | None, None]:
        weight, x = ctx.saved_tensors
        matrix: Operand = ctx.matrix
        grad_weight = grad_x = None
        if ctx.needs_input_grad[1]:
            rows = grad * matrix.on(grad.device).inverse_in_degrees(grad.dtype)[:, None] if ctx.mean else grad
            grad_weight = edge_products(matrix, rows.contiguous()[:, None], x.detach().contiguous()[:, None])[:, 0]
        if ctx.needs_input_grad[2]:
            grad_x = multiply(matrix.backward, grad, matrix.backward_weight(weight, ctx.mean, grad), None)
        return None, grad_weight, grad_x, None


@dataclass(frozen=True)
class _Layer:
    """What a layer computes from its tensors."""

    matrix: Operand
    weight: Tensor | None
    mean: bool
    kind: int
    mask: Any


class _SumLayer(torch.autograd.Function):
    """Sum or mean with constant weights, own terms, bias, activation and dropout; keeps at most its output."""

    @staticmethod
    def forward(ctx: Any, layer: _Layer, x: Tensor, own: Tensor | None, bias: Tensor) -> Tensor:
        matrix, weight = layer.matrix, None if layer.weight is None else layer.weight.contiguous()
        scale = matrix.on(x.device).inverse_in_degrees(x.dtype) if layer.mean else None
        addend = None if own is None else own.detach().contiguous()
        out = multiply(matrix.forward, x.detach(), weight, scale, addend)
        finish(out, bias, layer.kind, layer.mask)
        ctx.layer = layer
        ctx.save_for_backward(out if layer.kind else None, layer.weight)
        return out

    @staticmethod
    @without_second_derivative
    def backward(ctx: Any, grad: Tensor) -> tuple[None, Tensor | None, Tensor | None, Tensor]:
        (out, weight), layer = ctx.saved_tensors, ctx.layer
        grad_sum, grad_bias = gradients(grad, out, layer.kind, layer.mask)
        grad_x = None
        if ctx.needs_input_grad[1]:
            factors = layer.matrix.backward_weight(weight, layer.mean, grad)
            grad_x = multiply(layer.matrix.backward, grad_sum, factors, None)
        return None, grad_x, grad_sum if ctx.needs_input_grad[2] else None, grad_bias
