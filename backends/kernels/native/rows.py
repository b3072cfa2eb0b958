"""Sums over rows copied out of a matrix by the compiled extension; gradients use the transpose of that matrix."""

from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from backends.kernels.buffers import empty
from backends.kernels.checks import without_second_derivative
from backends.kernels.extension import extension, workers
from backends.kernels.native.aggregate import multiply
from backends.kernels.operand import Operand, operand

if TYPE_CHECKING:
    from backends.kernels.rows import MatrixRows


def spmm_with_own(
    part: Operand, x: Tensor, weight: Tensor | None, reduce: str, origin: "MatrixRows", with_own: bool
) -> tuple[Tensor, Tensor | None]:
    """Aggregate over the copied rows, and with ``with_own`` gather the rows' own entries of ``x``."""
    sums: tuple[Tensor, Tensor | None] = _SumOfRows.apply(part, weight, x, reduce == "mean", origin, with_own)
    return sums


class _SumOfRows(torch.autograd.Function):
    """Sum or mean over copied rows; the gradient is spread over all rows and multiplied with the origin's transpose."""

    @staticmethod
    def forward(
        ctx: Any, part: Operand, weight: Tensor | None, x: Tensor, mean: bool, origin: "MatrixRows", with_own: bool
    ) -> tuple[Tensor, Tensor | None]:
        x = x.detach().contiguous()
        scale = part.on(x.device).inverse_in_degrees(x.dtype) if mean else None
        ctx.origin = origin
        ctx.save_for_backward(scale, origin.weight)
        return multiply(part.forward, x, weight, scale), x.index_select(0, origin.rows) if with_own else None

    @staticmethod
    @without_second_derivative
    def backward(ctx: Any, grad: Tensor, grad_own: Tensor | None) -> tuple[Tensor | None, ...]:
        (scale, weight), origin = ctx.saved_tensors, ctx.origin
        matrix, grad = operand(origin.csr), grad.contiguous()
        spread = empty((matrix.shape[0], grad.shape[1]), grad.dtype)
        extension.spread_rows(grad, scale, origin.rows.numpy(), spread, workers(spread.numel(), 1))
        factors = None if weight is None else matrix.transposed_weight(weight)
        grad_x = multiply(matrix.backward, spread, factors, None)
        if grad_own is not None:
            extension.add_rows(grad_own.contiguous(), origin.rows.numpy(), grad_x, workers(grad_own.numel(), 1))
        return None, None, grad_x, None, None, None
