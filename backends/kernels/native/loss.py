"""Cross entropies by the compiled extension: their gradients are computed with their values in one pass."""

from typing import Any

import torch
from torch import Tensor

from backends.kernels import plain
from backends.kernels.buffers import empty_like
from backends.kernels.checks import without_second_derivative
from backends.kernels.extension import arrays, extension, threads, workers

_CHUNK = 1 << 14  # entries that one thread takes at a time


def binary_cross_entropy(logits: Tensor, targets: Tensor, share: Tensor | None) -> Tensor:
    """Sum of ``share`` times the loss of each entry, the mean without ``share``."""
    if logits.numel() == 0:
        return plain.binary_cross_entropy(logits, targets, share)
    value: Tensor = _BinaryCrossEntropy.apply(logits, targets, share)
    return value


def cross_entropy(logits: Tensor, labels: Tensor) -> Tensor:
    """Mean cross entropy over the rows with a label."""
    if logits.numel() == 0:
        return plain.cross_entropy(logits, labels)
    value: Tensor = _CrossEntropy.apply(logits, labels)
    return value


class _BinaryCrossEntropy(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, logits: Tensor, targets: Tensor, share: Tensor | None) -> Tensor:
        logits = logits.detach().contiguous()
        gradient, value = empty_like(logits), logits.new_empty(())
        extension.binary_cross_entropy(
            *arrays(logits, targets.contiguous(), None if share is None else share.contiguous()), 1.0 / logits.numel(),
            *arrays(gradient, value), workers(logits.numel(), 1, _CHUNK),
        )  # fmt: skip
        ctx.save_for_backward(gradient)
        return value

    @staticmethod
    @without_second_derivative
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None, None]:
        return _scaled(*ctx.saved_tensors, grad), None, None


class _CrossEntropy(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, logits: Tensor, labels: Tensor) -> Tensor:
        logits = logits.detach().contiguous()
        gradient, value = empty_like(logits), logits.new_empty(())
        extension.cross_entropy(*arrays(logits, labels.contiguous(), gradient, value), threads())
        ctx.save_for_backward(gradient)
        return value

    @staticmethod
    @without_second_derivative
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:
        return _scaled(*ctx.saved_tensors, grad), None


def _scaled(gradient: Tensor, grad: Tensor) -> Tensor:
    return gradient if float(grad) == 1.0 else gradient * grad
