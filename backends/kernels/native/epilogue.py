"""Bias, activation and dropout after an aggregation, and their gradients, each in one pass of the extension."""

from typing import Any

import torch
from torch import Tensor

from backends.kernels import plain
from backends.kernels.buffers import empty_like
from backends.kernels.checks import ACTIVATIONS, without_second_derivative
from backends.kernels.extension import arrays, extension, workers
from backends.kernels.native.dropout import mask_arguments


def bias_activation(x: Tensor, bias: Tensor, activation: str, fresh: bool, mask: Any) -> Tensor:
    """``dropout(activation(x + bias))``, written over x where that is ``fresh`` and contiguous."""
    if x.numel() == 0:
        return plain.bias_activation(x, bias, activation, fresh, mask)
    out: Tensor = _BiasActivation.apply(x, bias, ACTIVATIONS.index(activation), fresh, mask)
    return out


def finish(x: Tensor, bias: Tensor, kind: int, mask: Any) -> None:
    """Write ``dropout(activation(x + bias))`` over x, contiguous and without autograd."""
    values = arrays(x, bias.detach().contiguous())
    extension.bias_activation(*values, kind, mask_arguments(mask), values[0], workers(x.numel(), 1))


class _BiasActivation(torch.autograd.Function):
    """Saves its output, from which the activation's slope follows; saves nothing where there is no activation."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, bias: Tensor, kind: int, fresh: bool, mask: Any) -> Tensor:
        fresh = fresh and x.is_contiguous()
        out = x if fresh else empty_like(x)
        values = arrays(x.detach().contiguous(), bias.detach().contiguous())
        extension.bias_activation(*values, kind, mask_arguments(mask), out.detach().numpy(), workers(x.numel(), 1))
        if fresh:
            ctx.mark_dirty(x)
        ctx.kind, ctx.mask = kind, mask
        ctx.save_for_backward(out if kind else None)
        return out

    @staticmethod
    @without_second_derivative
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, Tensor, None, None, None]:
        (out,) = ctx.saved_tensors
        return *gradients(grad, out, ctx.kind, ctx.mask), None, None, None


def gradients(grad: Tensor, out: Tensor | None, kind: int, mask: Any) -> tuple[Tensor, Tensor]:
    """Gradients of x, which is ``grad`` itself without activation and mask, and of the bias."""
    grad = grad.contiguous()
    grad_x = None if kind == 0 and mask is None else empty_like(grad)
    grad_bias = grad.new_empty(grad.shape[1])
    results = arrays(grad_x, grad_bias)
    extension.bias_activation_backward(
        *arrays(grad, out), kind, mask_arguments(mask), *results, workers(grad.numel(), 1)
    )
    return grad if grad_x is None else grad_x, grad_bias
