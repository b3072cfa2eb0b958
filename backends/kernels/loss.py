"""Binary cross entropy of logits; autograd."""

from torch import Tensor

from backends.kernels.dispatch import implementation


def binary_cross_entropy(logits: Tensor, targets: Tensor, share: Tensor | None = None) -> Tensor:
    """Sum of ``share`` times the loss of each entry, ``share=None`` the mean; shapes equal, autograd in ``logits``."""
    if targets.shape != logits.shape or (share is not None and share.shape != logits.shape):
        raise ValueError(f"logits have shape {tuple(logits.shape)}: targets and share must have the same")
    value: Tensor = implementation("logits", logits).binary_cross_entropy(logits, targets, share)
    return value
