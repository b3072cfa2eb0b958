"""Dropout by the compiled extension; the mask is recomputed in the backward pass."""

from typing import Any

import torch
from torch import Tensor

from backends.kernels.buffers import empty_like
from backends.kernels.checks import without_second_derivative
from backends.kernels.epoch_key import EpochKey
from backends.kernels.extension import arrays, extension, workers
from backends.kernels.operand import Operand
from backends.kernels.profiling import named

_SMALL = 1 << 15  # entries worth a second thread


class MaskArguments(tuple[Any, ...]):
    """A mask as the extension takes it, key, bound, scale and the rows' numbers, with the key that it was made of."""

    key: int

    @classmethod
    def of(cls, key: int, *others: Any) -> "MaskArguments":
        """Arguments of a key; the extension takes exact integers at once, other kinds in a second attempt."""
        arguments = cls((int(key), *others))
        arguments.key = key
        return arguments

    def of_epoch(self, epoch: int) -> "MaskArguments":
        """The same mask in another epoch, where its key belongs to one."""
        return self.of(self.key.of_epoch(epoch), *self[1:]) if isinstance(self.key, EpochKey) else self


def mask_arguments(mask: Any) -> MaskArguments | None:
    """A mask, or none, as the extension takes it."""
    return None if mask is None else MaskArguments.of(mask.key, mask.bound, mask.scale, *arrays(mask.nodes))


def dropout(x: Tensor, mask: Any) -> Tensor:
    """Drop entries of x [rows, f]."""
    out: Tensor = _Dropout.apply(x, mask)
    return out


def dropout_values(matrix: Operand, values: Tensor, mask: Any) -> Tensor:
    """Drop stored values [nnz]; where the transpose of ``values`` is kept, that of the result is drawn from it."""
    if values.requires_grad:
        result: Tensor = _DropoutValues.apply(values, matrix, mask)
        return result
    out, transposed = _dropped_values(values, matrix, mask), matrix.cached_weight(values)
    if transposed is not None and not out.is_inference():
        matrix.derive_transposed(out, lambda: _dropped_columns(transposed, matrix, mask))
    return out


def _dropped_values(values: Tensor, matrix: Operand, mask: Any) -> Tensor:
    rows, values = matrix.forward, values.detach().contiguous()
    out = empty_like(values)
    with named("dropout of values"):
        extension.dropout_values(
            rows.indptr, rows.indices, values.numpy(), mask_arguments(mask), out.numpy(),
            workers(matrix.nnz, 1, _SMALL),
        )  # fmt: skip
    return out


def _dropped_columns(values: Tensor, matrix: Operand, mask: Any) -> Tensor:
    """Drop the values of a matrix's transpose, whose rows are the mask's columns."""
    rows, out = matrix.backward, empty_like(values)
    with named("dropout of a transpose"):
        extension.dropout_columns(
            rows.indptr, rows.indices, values.numpy(), matrix.shape[0], mask_arguments(mask), out.numpy(),
            workers(matrix.nnz, 1, _SMALL),
        )  # fmt: skip
    return out


def _dropped(x: Tensor, mask: Any) -> Tensor:
    x = x.detach().contiguous()
    out = empty_like(x)
    extension.dropout(x.numpy(), mask_arguments(mask), out.numpy(), workers(x.numel(), 1, _SMALL))
    return out


class _Dropout(torch.autograd.Function):
    """Saves nothing: the gradient passes where the value did."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, mask: Any) -> Tensor:
        ctx.mask = mask
        return _dropped(x, mask)

    @staticmethod
    @without_second_derivative
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:
        return _dropped(grad, ctx.mask), None


class _DropoutValues(torch.autograd.Function):
    """The same for the stored values of a sparse matrix."""

    @staticmethod
    def forward(ctx: Any, values: Tensor, matrix: Operand, mask: Any) -> Tensor:
        ctx.matrix, ctx.mask = matrix, mask
        return _dropped_values(values, matrix, mask)

    @staticmethod
    @without_second_derivative
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None, None]:
        return _dropped_values(grad, ctx.matrix, ctx.mask), None, None
