"""Largest weighted source row over in-edges; the winning edge of each entry is saved and receives its gradient."""

from typing import Any

import torch
from torch import Tensor

from backends.kernels.buffers import empty
from backends.kernels.checks import without_second_derivative
from backends.kernels.extension import extension
from backends.kernels.operand import Operand


class MaximumFunction(torch.autograd.Function):
    """Autograd of the largest weighted row, column by column."""

    @staticmethod
    def forward(ctx: Any, matrix: Operand, weight: Tensor | None, x: Tensor) -> Tensor:
        """Aggregate ``x`` [columns, width]; a row without edges gives 0."""
        x, weight = x.detach().contiguous(), None if weight is None else weight.detach().contiguous()
        rows = matrix.forward
        out = empty((rows.rows, x.shape[1]), x.dtype)
        winner = empty(tuple(out.shape), rows.index_dtype)
        threads = rows.workers(x.shape[1])
        extension.max_forward(rows.indptr, rows.indices, rows.bounds, rows.hubs, x, weight, out, winner, threads)
        ctx.matrix, ctx.threads = matrix, threads
        ctx.save_for_backward(weight, x, winner)
        return out

    @staticmethod
    @without_second_derivative
    def backward(ctx: Any, grad: Tensor) -> tuple[None, Tensor | None, Tensor | None]:
        """Gradients of the weight and of ``x``."""
        weight, x, winner = ctx.saved_tensors
        rows = ctx.matrix.forward
        grad_weight = torch.zeros(ctx.matrix.nnz, dtype=x.dtype) if ctx.needs_input_grad[1] else None
        grad_x = torch.zeros_like(x) if ctx.needs_input_grad[2] else None
        extension.max_backward(
            rows.indptr, rows.indices, rows.bounds, x, weight, winner, grad.contiguous(), grad_x, grad_weight,
            ctx.threads,
        )  # fmt: skip
        return None, grad_weight, grad_x
