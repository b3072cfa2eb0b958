"""Bias and activation after an aggregation, and their gradients, each in one pass."""

from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from backends.kernels.buffers import empty, empty_like
from backends.kernels.native import native, threads

ACTIVATIONS = ("none", "relu", "elu")


class _BiasActivation(torch.autograd.Function):
    """Keeps its output, which says how steep the activation was; nothing where there is none.

    Written over its input where that is ``fresh``.
    """

    @staticmethod
    def forward(ctx: Any, x: Tensor, bias: Tensor, kind: int, fresh: bool) -> Tensor:
        fresh = fresh and x.is_contiguous()
        out = x if fresh else empty_like(x)
        native.bias_activation(x.detach().contiguous(), bias.detach().contiguous(), kind, out.detach(), threads())
        if fresh:
            ctx.mark_dirty(x)
        ctx.kind = kind
        ctx.save_for_backward(out if kind else None)
        return out

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, Tensor, None, None]:
        (out,) = ctx.saved_tensors
        return *_gradients(grad, out, None, ctx.kind, None), None, None


class _AfterAttention(torch.autograd.Function):
    """The same for the outputs of ``fused.NativeAttention``, to which it sends their inner products back."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, inner: Tensor, bias: Tensor, kind: int) -> Tensor:
        native.bias_activation(x.detach(), bias.detach().contiguous(), kind, x.detach(), threads())
        ctx.mark_dirty(x)
        ctx.kind, ctx.heads = kind, inner.shape[1]
        ctx.save_for_backward(x, bias)
        return x

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, Tensor, Tensor, None]:
        out, bias = ctx.saved_tensors
        inner = empty((len(out), ctx.heads), out.dtype)
        grad_x, grad_bias = _gradients(grad, out, bias.detach().contiguous(), ctx.kind, inner)
        return grad_x, inner, grad_bias, None


def _gradients(
    grad: Tensor, out: Tensor | None, bias: Tensor | None, kind: int, inner: Tensor | None
) -> tuple[Tensor, Tensor]:
    """Gradients of x, which is ``grad`` itself without an activation, and of the bias; fills ``inner``."""
    grad = grad.contiguous()
    grad_x = empty_like(grad) if kind else None
    grad_bias = grad.new_empty(grad.shape[1])
    native.bias_activation_backward(grad, out, bias, kind, grad_x, inner, grad_bias, threads())
    return grad if grad_x is None else grad_x, grad_bias


def bias_activation(x: Tensor, bias: Tensor, activation: str = "none", fresh: bool = False) -> Tensor:
    """``activation(x + bias)`` for x [rows, f] and bias [f]; activation is ``none``, ``relu`` or ``elu``; autograd.

    ``fresh``: nothing else reads x, neither the caller nor the gradient of what made it, so that it is written over.
    """
    check_epilogue(x.shape, bias, activation)
    if native is not None and x.numel() > 0:
        out: Tensor = _BiasActivation.apply(x, bias, ACTIVATIONS.index(activation), fresh)
        return out
    return activated(x + bias, activation)


def after_attention(x: Tensor, inner: Tensor, bias: Tensor, activation: str) -> Tensor:
    """``activation(x + bias)`` over x, for both outputs of ``fused.NativeAttention``; needs the extension."""
    out: Tensor = _AfterAttention.apply(x, inner, bias, ACTIVATIONS.index(activation))
    return out


def check_epilogue(shape: tuple[int, ...], bias: Tensor, activation: str) -> None:
    """Refuse an unknown activation, and a bias that does not fit rows of ``shape`` [rows, f]."""
    if activation not in ACTIVATIONS:
        raise ValueError(f"activation={activation!r} is unknown: allowed are {', '.join(ACTIVATIONS)}")
    if len(shape) != 2 or bias.shape != shape[1:]:
        raise ValueError(f"x has shape {tuple(shape)}, bias {tuple(bias.shape)}: needed are [rows, f] and [f]")


def activated(x: Tensor, activation: str) -> Tensor:
    """Apply an activation by name, in torch."""
    if activation == "none":
        return x
    return functional.relu(x) if activation == "relu" else functional.elu(x)
