"""Dense layers, bias, activation and loss in plain torch."""

import torch
from torch import Tensor
from torch.nn import functional


def dense(
    x: Tensor, weight: Tensor, bias: Tensor | None, relu: bool, x2: Tensor | None, weight2: Tensor | None
) -> Tensor:
    """``x @ weight + bias``, plus ``x2 @ weight2`` unless they are ``None``, then ReLU with ``relu``."""
    out = x @ weight if bias is None else torch.addmm(bias, x, weight)
    out = out if x2 is None or weight2 is None else out + x2 @ weight2
    return _activated(out, "relu" if relu else "none")


def projection(x: Tensor, weight: Tensor, att_src: Tensor, att_dst: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """``z = x @ weight`` [rows, heads, d], and its inner products with both attention vectors [rows, heads]."""
    z = (x @ weight).view(-1, *att_src.shape)
    return z, (z * att_src).sum(-1), (z * att_dst).sum(-1)


def bias_activation(x: Tensor, bias: Tensor, activation: str, fresh: bool) -> Tensor:
    """``activation(x + bias)``; x is never written over, even where ``fresh`` allows it."""
    return _activated(x + bias, activation)


def binary_cross_entropy(logits: Tensor, targets: Tensor, share: Tensor | None) -> Tensor:
    """Sum of ``share`` times the loss of each entry, the mean without ``share``."""
    reduction = "mean" if share is None else "sum"
    return functional.binary_cross_entropy_with_logits(logits, targets, share, reduction=reduction)


def _activated(x: Tensor, activation: str) -> Tensor:
    if activation == "none":
        return x
    return functional.relu(x) if activation == "relu" else functional.elu(x)
