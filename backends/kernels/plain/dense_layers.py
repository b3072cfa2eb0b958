"""Dense layers, bias, activation, dropout and loss in plain torch."""

from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from backends.kernels.plain.dropout import dropout


def dense(
    x: Tensor, weight: Tensor, bias: Tensor | None, relu: bool, x2: Tensor | None, weight2: Tensor | None, mask: Any
) -> Tensor:
    """``x @ weight + bias``, plus ``x2 @ weight2`` unless they are ``None``, then ReLU with ``relu``, then dropout."""
    out = x @ weight if bias is None else torch.addmm(bias, x, weight)
    out = out if x2 is None or weight2 is None else out + x2 @ weight2
    return _finished(out, "relu" if relu else "none", mask)


def projection(x: Tensor, weight: Tensor, att_src: Tensor, att_dst: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """``z = x @ weight`` [rows, heads, d], and its inner products with both attention vectors [rows, heads]."""
    z = (x @ weight).view(len(x), *att_src.shape)
    return z, (z * att_src).sum(-1), (z * att_dst).sum(-1)


def bias_activation(x: Tensor, bias: Tensor, activation: str, fresh: bool, mask: Any) -> Tensor:
    """``dropout(activation(x + bias))``; x is never written over, even where ``fresh`` allows it."""
    return _finished(x + bias, activation, mask)


def binary_cross_entropy(logits: Tensor, targets: Tensor, share: Tensor | None) -> Tensor:
    """Sum of ``share`` times the loss of each entry, the mean without ``share``."""
    reduction = "mean" if share is None else "sum"
    return functional.binary_cross_entropy_with_logits(logits, targets, share, reduction=reduction)


def cross_entropy(logits: Tensor, labels: Tensor) -> Tensor:
    """Mean cross entropy over the rows with a label."""
    return functional.cross_entropy(logits, labels, ignore_index=-1)


def _finished(x: Tensor, activation: str, mask: Any) -> Tensor:
    if activation != "none":
        x = functional.relu(x) if activation == "relu" else functional.elu(x)
    return x if mask is None else dropout(x, mask)
