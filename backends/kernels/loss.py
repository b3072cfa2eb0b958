"""Binary cross entropy whose gradient is computed with its value, in one pass over the logits."""

from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from backends.kernels.buffers import empty_like
from backends.kernels.native import native, threads


class _BinaryCrossEntropy(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, logits: Tensor, targets: Tensor, share: Tensor | None) -> Tensor:
        logits = logits.detach().contiguous()
        gradient = empty_like(logits)
        total = native.binary_cross_entropy(
            logits, targets.contiguous(), None if share is None else share.contiguous(), 1.0 / logits.numel(), gradient,
            threads(),
        )  # fmt: skip
        ctx.save_for_backward(gradient)
        return torch.tensor(total, dtype=logits.dtype)

    @staticmethod
    def backward(ctx: Any, flow: Tensor) -> tuple[Tensor, None, None]:
        (gradient,) = ctx.saved_tensors
        return (gradient if float(flow) == 1.0 else gradient * flow), None, None


def binary_cross_entropy(logits: Tensor, targets: Tensor, share: Tensor | None = None) -> Tensor:
    """Sum of ``share`` times the loss of each entry, ``share=None`` the mean; shapes equal, autograd in ``logits``."""
    if targets.shape != logits.shape or (share is not None and share.shape != logits.shape):
        raise ValueError(f"logits have shape {tuple(logits.shape)}: targets and share must have the same")
    if native is not None and logits.numel() > 0:
        value: Tensor = _BinaryCrossEntropy.apply(logits, targets, share)
        return value
    reduction = "mean" if share is None else "sum"
    return functional.binary_cross_entropy_with_logits(logits, targets, share, reduction=reduction)
