"""Autograd of the largest source row over in-edges; the winning edge of each entry is kept, its gradient goes there."""

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from backends.kernels.buffers import empty
from backends.kernels.native import native, workers
from backends.kernels.operand import Operand


class NativeMaximum(torch.autograd.Function):
    """The largest of weighted rows, column by column."""

    @staticmethod
    def forward(ctx: Any, matrix: Operand, weight: Tensor | None, x: Tensor) -> Tensor:
        """Aggregate ``x`` [columns, width]; a row without edges gives 0."""
        x, weight = x.detach().contiguous(), None if weight is None else weight.detach().contiguous()
        half = matrix.forward
        out = empty((half.rows, x.shape[1]), x.dtype)
        winner = empty(tuple(out.shape), half.index_dtype)
        threads = workers(matrix.nnz, x.shape[1])
        native.max_forward(half.indptr, half.indices, half.bounds, half.hubs, x, weight, out, winner, threads)
        ctx.matrix, ctx.threads = matrix, threads
        ctx.save_for_backward(weight, x, winner)
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[None, Tensor | None, Tensor | None]:
        """Gradients of the weight and of ``x``."""
        weight, x, winner = ctx.saved_tensors
        half = ctx.matrix.forward
        grad_weight = torch.zeros(ctx.matrix.nnz, dtype=x.dtype) if ctx.needs_input_grad[1] else None
        grad_x = torch.zeros_like(x) if ctx.needs_input_grad[2] else None
        native.max_backward(
            half.indptr, half.indices, half.bounds, x, weight, winner, grad.contiguous(), grad_x, grad_weight,
            ctx.threads,
        )  # fmt: skip
        return None, grad_weight, grad_x
