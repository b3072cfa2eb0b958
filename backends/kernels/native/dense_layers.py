"""Dense layers of tall matrices: one pass forward with bias, ReLU and dropout, one pass backward for all gradients.

The packed weight stays in cache while rows stream by; ReLU, bias and dropout cost no pass of their own.
"""

from typing import Any

import torch
from torch import Tensor

from backends.kernels import plain
from backends.kernels.buffers import empty, empty_like
from backends.kernels.checks import without_second_derivative
from backends.kernels.extension import arrays, extension, workers
from backends.kernels.native.dropout import mask_arguments

_SMALL = 1 << 18  # multiplications worth a second thread; more than for a sum over edges, as operands are in cache


def dense(
    x: Tensor, weight: Tensor, bias: Tensor | None, relu: bool, x2: Tensor | None, weight2: Tensor | None, mask: Any
) -> Tensor:
    """``x @ weight + bias``, plus ``x2 @ weight2`` unless they are ``None``, then ReLU with ``relu``, then dropout."""
    if x.numel() == 0 or weight.numel() == 0:
        return plain.dense(x, weight, bias, relu, x2, weight2, mask)
    out: Tensor = _Dense.apply((relu, mask), x, weight, bias, x2, weight2)
    return out


def projection(x: Tensor, weight: Tensor, att_src: Tensor, att_dst: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """``z = x @ weight`` [rows, heads, d], and its inner products with both attention vectors [rows, heads]."""
    if x.numel() == 0 or weight.numel() == 0:
        return plain.projection(x, weight, att_src, att_dst)
    z, score_src, score_dst = _Projection.apply(x, weight, att_src, att_dst)
    return z.view(len(z), *att_src.shape), score_src, score_dst


def _gradient_like(tensor: Tensor | None, needed: bool = True) -> Tensor | None:
    return empty_like(tensor) if needed and tensor is not None else None


class _Dense(torch.autograd.Function):
    """One or two products, bias, ReLU and dropout; keeps its inputs and, for ReLU and dropout, its output."""

    @staticmethod
    def forward(
        ctx: Any,
        epilogue: tuple[bool, Any],
        x: Tensor,
        weight: Tensor,
        bias: Tensor | None,
        x2: Tensor | None,
        weight2: Tensor | None,
    ) -> Tensor:
        relu, mask = epilogue
        operands = [None if operand is None else operand.detach().contiguous() for operand in (x, weight, x2, weight2)]
        out = empty((x.shape[0], weight.shape[1]), x.dtype)
        inputs = arrays(*operands, None if bias is None else bias.detach())
        threads = workers(x.numel(), weight.shape[1], _SMALL)
        extension.dense_forward(*inputs, relu, mask_arguments(mask), out.numpy(), *[None] * 4, threads)
        ctx.relu, ctx.scale, ctx.has_bias = relu, 1.0 if mask is None else mask.scale, bias is not None
        ctx.save_for_backward(*operands, out if relu else None)
        return out

    @staticmethod
    @without_second_derivative
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        x, weight, x2, weight2, out = ctx.saved_tensors
        needs = ctx.needs_input_grad
        grads = [_gradient_like(x, needs[1]), empty_like(weight), _gradient_like(x2, needs[4]), _gradient_like(weight2)]
        grad_bias = weight.new_empty(weight.shape[1])
        threads = workers(x.numel(), weight.shape[1], _SMALL)
        operands = arrays(grad.contiguous(), out, x, weight, *grads[:2], x2, weight2, *grads[2:], grad_bias)
        extension.dense_backward(*operands, *[None] * 6, ctx.relu, ctx.scale, threads)
        return None, *grads[:2], grad_bias if ctx.has_bias else None, *grads[2:]


class _Projection(torch.autograd.Function):
    """A product and two scores per head of its rows."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, att_src: Tensor, att_dst: Tensor) -> tuple[Tensor, ...]:
        x, weight, att_src, att_dst = (operand.detach().contiguous() for operand in (x, weight, att_src, att_dst))
        out = empty((x.shape[0], weight.shape[1]), x.dtype)
        scores = [x.new_empty((x.shape[0], att_src.shape[0])) for _ in range(2)]
        threads = workers(x.numel(), weight.shape[1], _SMALL)
        vectors = arrays(att_src, att_dst, *scores)
        extension.dense_forward(*arrays(x, weight), None, None, None, False, None, out.numpy(), *vectors, threads)
        ctx.save_for_backward(x, weight, att_src, att_dst, out)
        return out, *scores

    @staticmethod
    @without_second_derivative
    def backward(ctx: Any, *output_grads: Tensor) -> tuple[Tensor | None, ...]:
        x, weight, att_src, att_dst, out = ctx.saved_tensors
        grad, grad_src, grad_dst = (output_grad.contiguous() for output_grad in output_grads)
        grads = [_gradient_like(x, ctx.needs_input_grad[0]), *map(empty_like, (weight, att_src, att_dst))]
        threads = workers(x.numel(), weight.shape[1], _SMALL)
        operands = arrays(grad, out, x, weight, *grads[:2])
        vectors = arrays(weight.new_empty(weight.shape[1]), att_src, att_dst, grad_src, grad_dst, *grads[2:])
        extension.dense_backward(*operands, *[None] * 4, *vectors, False, 1.0, threads)
        return tuple(grads)
