"""Each head's rows times its own weight, where attention gathered rows before they are transformed."""

from typing import Any

import torch
from torch import Tensor

from backends.kernels.buffers import empty
from backends.kernels.checks import without_second_derivative


def head_products(x: Tensor, weight: Tensor) -> Tensor:
    """Multiply x [rows, heads, k] by weight [k, heads * d], head by head: [rows, heads * d]; autograd in both.

    float32 or float64, both of one type. Raises ValueError for shapes or types that do not fit.
    """
    if x.dim() != 3 or weight.dim() != 2 or x.shape[2] != weight.shape[0] or weight.shape[1] % max(x.shape[1], 1):
        shapes = f"{tuple(x.shape)} and {tuple(weight.shape)}"
        raise ValueError(f"x and weight have shapes {shapes}: [rows, heads, k] and [k, heads * d] are needed")
    if x.dtype not in (torch.float32, torch.float64) or weight.dtype != x.dtype:
        raise ValueError(f"x is {x.dtype}, weight {weight.dtype}: both must be float32, or float64")
    out: Tensor = _HeadProducts.apply(x, weight)
    return out


def _by_head(rows: Tensor, heads: int) -> Tensor:
    """A view [heads, rows, columns] of rows whose heads lie side by side."""
    return rows.view(rows.shape[0], heads, rows.shape[1] // heads).transpose(0, 1)


class _HeadProducts(torch.autograd.Function):
    """One batched product each; results are written where they belong, so that nothing is copied."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor) -> Tensor:
        x, weight = x.detach().contiguous(), weight.detach().contiguous()
        heads = x.shape[1]
        out = _empty((x.shape[0], weight.shape[1]), x)
        torch.bmm(x.transpose(0, 1), _by_head(weight, heads), out=_by_head(out, heads))
        ctx.save_for_backward(x, weight)
        return out

    @staticmethod
    @without_second_derivative
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, Tensor]:
        x, weight = ctx.saved_tensors
        heads = x.shape[1]
        by_head, grad_x, grad_weight = _by_head(grad.contiguous(), heads), _empty(x.shape, x), torch.empty_like(weight)
        torch.bmm(by_head, _by_head(weight, heads).transpose(1, 2), out=grad_x.transpose(0, 1))
        torch.bmm(x.permute(1, 2, 0), by_head, out=_by_head(grad_weight, heads))
        return grad_x, grad_weight


def _empty(shape: tuple[int, ...], like: Tensor) -> Tensor:
    return empty(shape, like.dtype) if like.device.type == "cpu" else like.new_empty(shape)
