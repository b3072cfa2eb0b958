"""Autograd over the native kernels: buffers, the kept transpose, and nothing computed twice that is cheap to keep."""

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from backends.kernels.buffers import empty, empty_like
from backends.kernels.edges import edge_products
from backends.kernels.native import native, threads
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


@dataclass(frozen=True)
class Attention:
    """What an attention is made of beside its operands; ``seed`` says which edges dropout drops."""

    matrix: Operand
    slope: float
    dropout: float
    seed: int

    def forward(self, operands: list[Tensor | None], flat: bool) -> tuple[Tensor, Tensor, Tensor]:
        """Attend with z and the scores of sources, destinations and edges: the output, row maxima and sums.

        The output is [rows, heads, d]; ``flat``: [rows, heads * d].
        """
        z, half = operands[0], self.matrix.forward
        assert z is not None
        rows, heads, width = self.matrix.shape[0], z.shape[1], z.shape[2]
        out = empty((rows, heads * width) if flat else (rows, heads, width), z.dtype)
        row_max, row_sum = (empty((rows, heads), z.dtype) for _ in range(2))
        native.gat_forward(
            half.indptr, half.indices, half.bounds, half.hubs, *map(_array, operands), self.slope, self.dropout,
            self.seed, *map(_array, (row_max, row_sum, out)), _workers(self.matrix.nnz, heads * width),
        )  # fmt: skip
        return out, row_max, row_sum

    def backward(self, kept: tuple[Tensor, ...], grad: Tensor, inner: Tensor, edges: bool) -> list[Tensor | None]:
        """Gradients of the operands, which begin ``kept`` before row maxima and sums.

        ``inner`` [rows, heads] are the inner products of the output and its gradient.
        """
        matrix, half, z = self.matrix, self.matrix.backward, kept[0]
        grads = [*map(empty_like, kept[:3]), empty_like(kept[3]) if edges else None]
        grad = grad.contiguous().view(-1, *z.shape[1:])
        native.gat_backward(
            half.indptr, half.indices, half.bounds, half.hubs, matrix.permutation, matrix.forward.indptr,
            matrix.inverse, matrix.forward.bounds, *map(_array, kept[:4]), self.slope, self.dropout, self.seed,
            *map(_array, (*kept[4:], inner, grad, *grads)), _workers(matrix.nnz, z.shape[1] * z.shape[2]),
        )  # fmt: skip
        return grads


def _plain_operands(operands: tuple[Tensor | None, ...]) -> list[Tensor | None]:
    return [None if part is None else part.detach().contiguous() for part in operands]


class NativeGat(torch.autograd.Function):
    """Fused attention; keeps the output, each row's largest score and its sum of exponentials."""

    @staticmethod
    def forward(ctx: Any, attention: Attention, *given: Tensor | None) -> Tensor:
        """Attend with z and the scores of sources, destinations and edges: [rows, heads, d]."""
        operands = _plain_operands(given)
        out, row_max, row_sum = attention.forward(operands, flat=False)
        ctx.attention = attention
        ctx.save_for_backward(*operands, row_max, row_sum, out)
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        """Gradients of ``z`` and of the scores."""
        *kept, row_max, row_sum, out = ctx.saved_tensors
        grad = grad.contiguous()
        inner = empty_like(row_max)
        native.row_products(out, grad, inner, threads())
        edges = ctx.needs_input_grad[4]
        return None, *ctx.attention.backward((*kept, row_max, row_sum), grad, inner, edges)


class NativeAttention(torch.autograd.Function):
    """Fused attention which keeps no output: the second output gets, as if its gradient, ``inner`` of ``Attention``.

    So what comes next may write over the output, as long as it can tell those products.
    """

    @staticmethod
    def forward(ctx: Any, attention: Attention, *given: Tensor) -> tuple[Tensor, Tensor]:
        """Attend with z and the scores of sources and destinations: [rows, heads * d], and no memory of the rest."""
        operands = [*_plain_operands(given), None]
        out, row_max, row_sum = attention.forward(operands, flat=True)
        ctx.attention = attention
        ctx.save_for_backward(*operands, row_max, row_sum)
        return out, torch.empty_like(row_max)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor, inner: Tensor) -> tuple[Tensor | None, ...]:
        """Gradients of ``z`` and of the scores."""
        return None, *ctx.attention.backward(ctx.saved_tensors, grad, inner, edges=False)[:3]
