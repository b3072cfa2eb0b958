"""Cross entropy of logits, of classes or of 0/1 entries; autograd."""

import torch
from torch import Tensor

from backends.kernels.checks import check_values
from backends.kernels.dispatch import implementation


def binary_cross_entropy(logits: Tensor, targets: Tensor, share: Tensor | None = None) -> Tensor:
    """Sum of ``share`` times the loss of each entry, ``share=None`` the mean; shapes equal, autograd in ``logits``."""
    if targets.shape != logits.shape or (share is not None and share.shape != logits.shape):
        raise ValueError(f"logits have shape {tuple(logits.shape)}: targets and share must have the same")
    check_values("logits", logits)
    for name, values in (("targets", targets), ("share", share)):
        if values is not None:
            check_values(name, values, like=logits)
            if values.requires_grad and torch.is_grad_enabled():
                raise ValueError(f"{name} needs a gradient, only logits get one: call .detach() first")
    value: Tensor = implementation("logits", logits).binary_cross_entropy(logits, targets, share)
    return value


def cross_entropy(logits: Tensor, labels: Tensor) -> Tensor:
    """Mean cross entropy of logits [n, classes] over rows whose label, int64 [n], is not -1; autograd in ``logits``.

    NaN without any label. Raises IndexError for a label that is no class.
    """
    if logits.dim() != 2 or labels.shape != logits.shape[:1] or labels.dtype != torch.int64:
        raise ValueError(
            f"logits have shape {tuple(logits.shape)}, labels are {labels.dtype} {tuple(labels.shape)}: "
            "[n, classes] and int64 [n] are needed"
        )
    check_values("logits", logits)
    value: Tensor = implementation("logits", logits).cross_entropy(logits, labels)
    return value
