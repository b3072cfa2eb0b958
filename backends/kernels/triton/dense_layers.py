"""Dense layers: torch's products; bias, activation and dropout in Triton, one launch forward and one back."""

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

from backends.kernels.checks import ACTIVATIONS, without_second_derivative
from backends.kernels.triton.dropout import constants, retained

_ENTRIES = 1024  # of a program
NONE, RELU, ELU = (ACTIVATIONS.index(name) for name in ("none", "relu", "elu"))


@triton.jit
def _exponential_less_one(x):
    """``exp(x) - 1`` of negative x; by its series near 0, where the difference would lose digits."""
    series = x * 0.0 + 1.0
    for step in tl.static_range(9):
        series = 1.0 + series * x / (10 - step)
    return tl.where(x > -0.1, x * series, tl.exp(x) - 1.0)


@triton.jit(do_not_specialize=["key", "bound"])
def _finish(
    x, bias, nodes, scale, out, entries, width, key, bound, KIND: tl.constexpr, BIASED: tl.constexpr,
    DROPS: tl.constexpr, NUMBERED: tl.constexpr, ENTRIES: tl.constexpr,
):  # fmt: skip
    """``dropout(activation(x + bias))`` of entries of rows."""
    at = tl.program_id(0).to(tl.int64) * ENTRIES + tl.arange(0, ENTRIES)
    inside = at < entries
    row, column = at // width, at % width
    values = tl.load(x + at, mask=inside, other=0.0)
    if BIASED:
        values += tl.load(bias + column, mask=inside, other=0.0)
    if KIND == 1:
        values = tl.where(values < 0, 0.0, values)  # NaN stays
    if KIND == 2:
        values = tl.where(values > 0, values, _exponential_less_one(values))
    if DROPS:
        node = tl.load(nodes + row, mask=inside, other=0) if NUMBERED else row
        values = tl.where(retained(node, column, key, bound), values * tl.load(scale), 0.0)
    tl.store(out + at, values, mask=inside)


@triton.jit(do_not_specialize=["key", "bound"])
def _finish_backward(
    grad, out, nodes, scale, grad_x, entries, width, key, bound, KIND: tl.constexpr, DROPS: tl.constexpr,
    NUMBERED: tl.constexpr, ENTRIES: tl.constexpr,
):  # fmt: skip
    """Gradient before the activation, from that of the result and the result."""
    at = tl.program_id(0).to(tl.int64) * ENTRIES + tl.arange(0, ENTRIES)
    inside = at < entries
    values, result = tl.load(grad + at, mask=inside, other=0.0), tl.load(out + at, mask=inside, other=0.0)
    if DROPS:
        row, column = at // width, at % width
        node = tl.load(nodes + row, mask=inside, other=0) if NUMBERED else row
        values = tl.where(retained(node, column, key, bound), values * tl.load(scale), 0.0)
        result = result / tl.load(scale)
    if KIND == 1:
        values = tl.where(result <= 0, 0.0, values)  # NaN passes the gradient on
    if KIND == 2:
        values = tl.where(result > 0, values, values * (result + 1))
    tl.store(grad_x + at, values, mask=inside)


def finish(x: Tensor, bias: Tensor | None, activation: str, mask: Any) -> Tensor:
    """``dropout(activation(x + bias))`` of x [rows, f], with autograd."""
    kind = ACTIVATIONS.index(activation)
    if kind == NONE and mask is None:
        return x if bias is None else x + bias
    out: Tensor = _Finish.apply(x, bias, kind, mask)
    return out


def bias_activation(x: Tensor, bias: Tensor, activation: str, fresh: bool, mask: Any) -> Tensor:
    """``dropout(activation(x + bias))``; x is never written over, even where ``fresh`` allows it."""
    return finish(x, bias, activation, mask)


def dense(
    x: Tensor, weight: Tensor, bias: Tensor | None, relu: bool, x2: Tensor | None, weight2: Tensor | None, mask: Any
) -> Tensor:
    """``x @ weight + bias``, plus ``x2 @ weight2`` unless they are ``None``, then ReLU with ``relu``, then dropout."""
    out = x @ weight if bias is None else torch.addmm(bias, x, weight)
    out = out if x2 is None or weight2 is None else torch.addmm(out, x2, weight2)
    return finish(out, None, "relu" if relu else "none", mask)


def projection(x: Tensor, weight: Tensor, att_src: Tensor, att_dst: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """``z = x @ weight`` [rows, heads, d], and its inner products with both attention vectors [rows, heads].

    The scores are products of x, not of the larger z: ``(x @ weight) @ att = x @ (weight @ att)``.
    """
    by_head = weight.view(-1, *att_src.shape)
    vectors = torch.cat([(by_head * att).sum(-1) for att in (att_src, att_dst)], 1)
    score_src, score_dst = (x @ vectors).split(len(att_src), 1)
    return (x @ weight).view(-1, *att_src.shape), score_src, score_dst


class _Finish(torch.autograd.Function):
    """Bias, activation and dropout; the result is all that is kept."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, bias: Tensor | None, kind: int, mask: Any) -> Tensor:
        x = x.detach().contiguous()
        out = torch.empty_like(x)
        ctx.kind, ctx.mask, ctx.biased = kind, mask, bias is not None
        if out.numel():
            operands = x, None if bias is None else bias.detach(), *_mask_of(mask, x), out
            _launch(_finish, operands, x, mask, kind, bias is not None)
        ctx.save_for_backward(out)
        return out

    @staticmethod
    @without_second_derivative
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, Tensor | None, None, None]:
        (out,) = ctx.saved_tensors
        grad = grad.contiguous()
        grad_x = torch.empty_like(grad)
        if grad.numel():
            _launch(_finish_backward, (grad, out, *_mask_of(ctx.mask, grad), grad_x), grad, ctx.mask, ctx.kind)
        return grad_x, grad_x.sum(0) if ctx.biased else None, None, None


def _mask_of(mask: Any, like: Tensor) -> tuple[Tensor | None, Tensor | None]:
    """Numbers of the rows, and the scale in the type of the tensors."""
    return (None, None) if mask is None else (mask.nodes, constants(like.dtype, like.device, mask.scale))


def _launch(kernel: Any, operands: tuple[Any, ...], like: Tensor, mask: Any, *options: Any) -> None:
    """Launch a kernel over all entries of rows."""
    key, bound, is_numbered = (0, 0, False) if mask is None else (mask.key, mask.bound, mask.nodes is not None)
    grid = (triton.cdiv(like.numel(), _ENTRIES),)
    kernel[grid](*operands, like.numel(), like.shape[1], key, bound, *options, mask is not None, is_numbered, _ENTRIES)
