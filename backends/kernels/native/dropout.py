"""Dropout by the compiled extension; the mask is recomputed in the backward pass."""

from typing import Any

import torch
from torch import Tensor

from backends.kernels.buffers import empty_like
from backends.kernels.extension import arrays, extension, workers
from backends.kernels.operand import Operand

_SMALL = 1 << 15  # entries worth a second thread


def dropout(x: Tensor, mask: Any) -> Tensor:
    """Drop entries of x [rows, f]."""
    out: Tensor = _Dropout.apply(x, mask)
    return out


def dropout_values(matrix: Operand, values: Tensor, mask: Any) -> Tensor:
    """Drop stored values [nnz]."""
    out: Tensor = _DropoutValues.apply(values, matrix, mask)
    return out


def _dropped_values(values: Tensor, matrix: Operand, mask: Any) -> Tensor:
    rows, values = matrix.forward, values.detach().contiguous()
    out = empty_like(values)
    extension.dropout_values(
        rows.indptr, rows.indices, rows.bounds, values.numpy(), mask.key, mask.bound, mask.scale,
        *arrays(mask.nodes, out), workers(matrix.nnz, 1, _SMALL),
    )  # fmt: skip
    return out


def _dropped(x: Tensor, mask: Any) -> Tensor:
    x = x.detach().contiguous()
    out = empty_like(x)
    numbers, threads = arrays(mask.nodes, out), workers(x.numel(), 1, _SMALL)
    extension.dropout(x.numpy(), mask.key, mask.bound, mask.scale, *numbers, threads)
    return out


class _Dropout(torch.autograd.Function):
    """Saves nothing: the gradient passes where the value did."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, mask: Any) -> Tensor:
        ctx.mask = mask
        return _dropped(x, mask)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:
        return _dropped(grad, ctx.mask), None


class _DropoutValues(torch.autograd.Function):
    """The same for the stored values of a sparse matrix."""

    @staticmethod
    def forward(ctx: Any, values: Tensor, matrix: Operand, mask: Any) -> Tensor:
        ctx.matrix, ctx.mask = matrix, mask
        return _dropped_values(values, matrix, mask)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None, None]:
        return _dropped_values(grad, ctx.matrix, ctx.mask), None, None
