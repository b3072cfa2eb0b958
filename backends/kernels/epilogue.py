"""Bias and activation after an aggregation, and their gradients, each in one pass."""

from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from backends.kernels.buffers import empty_like
from backends.kernels.native import native, threads

ACTIVATIONS = ("none", "relu", "elu")


class _BiasActivation(torch.autograd.Function):
    """Keeps its output, which says how steep the activation was."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, bias: Tensor, kind: int) -> Tensor:
        x, bias = x.detach().contiguous(), bias.detach().contiguous()
        out = empty_like(x)
        native.bias_activation(x, bias, kind, out, threads())
        ctx.kind = kind
        ctx.save_for_backward(out)
        return out

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, Tensor, None]:
        (out,) = ctx.saved_tensors
        if ctx.kind == 0 and grad.shape[1] > 1:
            # torch sums in cascades: gradients of a loss cancel, and one long sum in float32 leaves too few digits
            return grad, grad.sum(0), None
        grad_x, grad_bias = empty_like(out), out.new_empty(out.shape[1])
        native.bias_activation_backward(grad.contiguous(), out, ctx.kind, grad_x, grad_bias, threads())
        return grad_x, grad_bias, None


def bias_activation(x: Tensor, bias: Tensor, activation: str = "none") -> Tensor:
    """``activation(x + bias)`` for x [rows, f] and bias [f]; activation is ``none``, ``relu`` or ``elu``; autograd."""
    if activation not in ACTIVATIONS:
        raise ValueError(f"activation={activation!r} is unknown: allowed are {', '.join(ACTIVATIONS)}")
    if x.dim() != 2 or bias.shape != x.shape[1:]:
        raise ValueError(f"x has shape {tuple(x.shape)}, bias {tuple(bias.shape)}: needed are [rows, f] and [f]")
    if native is not None and x.numel() > 0:
        out: Tensor = _BiasActivation.apply(x, bias, ACTIVATIONS.index(activation))
        return out
    return activated(x + bias, activation)


def activated(x: Tensor, activation: str) -> Tensor:
    """Apply an activation by name, in torch."""
    if activation == "none":
        return x
    return functional.relu(x) if activation == "relu" else functional.elu(x)
