"""Dense layers of tall matrices: one pass forward with bias and activation, one pass back for all gradients.

The native form keeps the packed weight in cache while rows stream by; ``relu`` and the bias cost no pass of their own.
"""

from typing import Any

import torch
from torch import Tensor

from backends.kernels.buffers import empty, empty_like
from backends.kernels.epilogue import activated
from backends.kernels.native import native, workers

_SMALL = 1 << 18  # multiplications; their operands are in cache, unlike those of a sum over edges


def _outputs(needed: bool, like: Tensor | None) -> Tensor | None:
    return empty_like(like) if needed and like is not None else None


class _Dense(torch.autograd.Function):
    """One or two products, bias and ReLU; keeps its inputs and, for the ReLU, its output."""

    @staticmethod
    def forward(
        ctx: Any, relu: bool, x: Tensor, weight: Tensor, bias: Tensor | None, x2: Tensor | None, weight2: Tensor | None
    ) -> Tensor:
        parts = [None if part is None else part.detach().contiguous() for part in (x, weight, x2, weight2)]
        out = empty((x.shape[0], weight.shape[1]), x.dtype)
        held = None if bias is None else bias.detach()
        native.dense_forward(*parts, held, relu, out, *[None] * 4, workers(x.numel(), weight.shape[1], _SMALL))
        ctx.relu, ctx.has_bias = relu, bias is not None
        ctx.save_for_backward(*parts, out if relu else None)
        return out

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        x, weight, x2, weight2, out = ctx.saved_tensors
        needs = ctx.needs_input_grad
        grads = [_outputs(needs[1], x), empty_like(weight), _outputs(needs[4], x2), _outputs(True, weight2)]
        grad_bias = weight.new_empty(weight.shape[1])
        native.dense_backward(
            grad.contiguous(), out, x, weight, *grads[:2], x2, weight2, *grads[2:], grad_bias, *[None] * 6, ctx.relu,
            workers(x.numel(), weight.shape[1], _SMALL),
        )  # fmt: skip
        return None, *grads[:2], grad_bias if ctx.has_bias else None, *grads[2:]


def dense(
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    relu: bool = False,
    other: tuple[Tensor, Tensor] | None = None,
) -> Tensor:
    """``x @ weight + bias``, plus the product of the ``other`` pair, then ReLU where asked: [rows, columns]; autograd.

    float32 or float64; all of one type. ``other`` is (x [rows, any], weight [any, columns]).
    """
    x2, weight2 = other or (None, None)
    _check(x, weight, bias)
    if x2 is not None and weight2 is not None:
        _check(x2, weight2, bias)
        if x2.shape[0] != x.shape[0] or weight2.shape[1] != weight.shape[1]:
            raise ValueError(f"products of {x.shape[0]} and {x2.shape[0]} rows cannot be added: give equal shapes")
    if native is not None and x.numel() > 0 and weight.numel() > 0:
        out: Tensor = _Dense.apply(relu, x, weight, bias, x2, weight2)
        return out
    out = x @ weight if bias is None else torch.addmm(bias, x, weight)
    out = out if x2 is None or weight2 is None else out + x2 @ weight2
    return activated(out, "relu" if relu else "none")


class _Projection(torch.autograd.Function):
    """A product and two scores per head of its rows."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, att_src: Tensor, att_dst: Tensor) -> tuple[Tensor, ...]:
        x, weight, att_src, att_dst = (part.detach().contiguous() for part in (x, weight, att_src, att_dst))
        out = empty((x.shape[0], weight.shape[1]), x.dtype)
        scores = [x.new_empty((x.shape[0], att_src.shape[0])) for _ in range(2)]
        threads = workers(x.numel(), weight.shape[1], _SMALL)
        native.dense_forward(x, weight, None, None, None, False, out, att_src, att_dst, *scores, threads)
        ctx.save_for_backward(x, weight, att_src, att_dst, out)
        return out, *scores

    @staticmethod
    def backward(ctx: Any, *flows: Tensor) -> tuple[Tensor | None, ...]:
        x, weight, att_src, att_dst, out = ctx.saved_tensors
        grad, grad_src, grad_dst = (flow.contiguous() for flow in flows)
        grads = [_outputs(ctx.needs_input_grad[0], x), *map(empty_like, (weight, att_src, att_dst))]
        native.dense_backward(
            grad, out, x, weight, *grads[:2], None, None, None, None, weight.new_empty(weight.shape[1]), att_src,
            att_dst, grad_src, grad_dst, *grads[2:], False, workers(x.numel(), weight.shape[1], _SMALL),
        )  # fmt: skip
        return tuple(grads)


def projection(x: Tensor, weight: Tensor, att_src: Tensor, att_dst: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Make ``z = x @ weight`` as [rows, heads, d] and ``(z * att).sum(-1)`` [rows, heads] for both att [heads, d]."""
    _check(x, weight, None)
    heads, width = att_src.shape
    if weight.shape[1] != heads * width or att_dst.shape != att_src.shape:
        shapes = f"{tuple(att_src.shape)} and {tuple(att_dst.shape)}"
        raise ValueError(f"attention vectors have shapes {shapes}: both need [heads, d], {weight.shape[1]} entries")
    if native is not None and x.numel() > 0 and weight.numel() > 0:
        z, score_src, score_dst = _Projection.apply(x, weight, att_src, att_dst)
        return z.view(-1, heads, width), score_src, score_dst
    z = (x @ weight).view(-1, heads, width)
    return z, (z * att_src).sum(-1), (z * att_dst).sum(-1)


def _check(x: Tensor, weight: Tensor, bias: Tensor | None) -> None:
    if x.dim() != 2 or weight.dim() != 2 or x.shape[1] != weight.shape[0]:
        raise ValueError(f"x has shape {tuple(x.shape)}, weight {tuple(weight.shape)}: [rows, k] and [k, f] are needed")
    if bias is not None and bias.shape != weight.shape[1:]:
        raise ValueError(f"bias has shape {tuple(bias.shape)}: {weight.shape[1]} columns need ({weight.shape[1]},)")
    if x.dtype not in (torch.float32, torch.float64) or weight.dtype != x.dtype:
        raise ValueError(f"x is {x.dtype}, weight {weight.dtype}: both must be float32, or float64")
