"""Sums over rows copied out of a matrix by the compiled extension, with gradients through the whole's transpose."""

from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from backends.kernels.buffers import empty
from backends.kernels.extension import extension, workers
from backends.kernels.native.aggregate import multiply
from backends.kernels.operand import Operand, operand

if TYPE_CHECKING:
    from backends.kernels.rows import MatrixRows


def spmm_with_own(
    part: Operand, x: Tensor, weight: Tensor | None, reduce: str, taken: "MatrixRows", own: bool
) -> tuple[Tensor, Tensor | None]:
    """Aggregate over the copied rows, and gather the rows' ``own`` entries of ``x`` where asked."""
    sums: tuple[Tensor, Tensor | None] = _SumOfRows.apply(part, weight, x, reduce == "mean", taken, own)
    return sums


class _SumOfRows(torch.autograd.Function):
    """Sum or mean over copied rows; the gradient is spread over all rows and multiplied with the whole's transpose."""

    @staticmethod
    def forward(
        ctx: Any, part: Operand, weight: Tensor | None, x: Tensor, mean: bool, taken: "MatrixRows", own: bool
    ) -> tuple[Tensor, Tensor | None]:
        x = x.detach().contiguous()
        scale = part.inverse_in_degrees.to(x.dtype) if mean else None
        ctx.taken = taken
        ctx.save_for_backward(scale)
        return multiply(part.forward, x, weight, scale), x.index_select(0, taken.rows) if own else None

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor, grad_own: Tensor | None) -> tuple[Tensor | None, ...]:
        (scale,), taken = ctx.saved_tensors, ctx.taken
        whole, grad = operand(taken.whole), grad.contiguous()
        spread = empty((whole.shape[0], grad.shape[1]), grad.dtype)
        extension.spread_rows(grad, scale, taken.rows.numpy(), spread, workers(spread.numel(), 1))
        weight = None if taken.weight is None else whole.transposed_weight(taken.weight)
        grad_x = multiply(whole.backward, spread, weight, None)
        if grad_own is not None:
            extension.add_rows(grad_own.contiguous(), taken.rows.numpy(), grad_x, workers(grad_own.numel(), 1))
        return None, None, grad_x, None, None, None
