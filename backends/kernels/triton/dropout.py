"""Dropout in Triton: the words of the native kernel, hashed from key, node and column, in both passes again."""

from functools import lru_cache
from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

from backends.kernels.checks import without_second_derivative
from backends.kernels.operand import Operand
from backends.kernels.triton.layout import side_of

_COLUMNS, _EDGES = 256, 1024


@triton.jit
def _mixed(word):
    """Finaliser of splitmix64."""
    word = (word ^ (word >> 30)) * tl.full([], 0xBF58476D1CE4E5B9, tl.uint64)
    word = (word ^ (word >> 27)) * tl.full([], 0x94D049BB133111EB, tl.uint64)
    return word ^ (word >> 31)


@triton.jit
def retained(node, column, key, bound):
    """Whether the entries of nodes and columns reach the bound."""
    step = tl.full([], 0x9E3779B97F4A7C15, tl.uint64)
    keys = _mixed(_mixed(node.to(tl.uint64) * step + key.to(tl.uint64)) + step)
    word = column.to(tl.uint32) * tl.full([], 0x9E3779B1, tl.uint32) + keys.to(tl.uint32)
    word = (word ^ (word >> 16)) * tl.full([], 0x7FEB352D, tl.uint32)
    word = word ^ (keys >> 32).to(tl.uint32)
    word = (word ^ (word >> 15)) * tl.full([], 0x846CA68B, tl.uint32)
    return word.to(tl.uint64) >= bound.to(tl.uint64)


@triton.jit(do_not_specialize=["key", "bound"])
def _drop_rows(x, nodes, scale, out, width, key, bound, NUMBERED: tl.constexpr, COLUMNS: tl.constexpr):
    """Drop entries of a part of one row."""
    row = tl.program_id(0).to(tl.int64)
    at = tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)
    node = tl.load(nodes + row) if NUMBERED else row
    values = tl.load(x + row * width + at, mask=at < width, other=0.0) * tl.load(scale)
    tl.store(out + row * width + at, tl.where(retained(node, at, key, bound), values, 0.0), mask=at < width)


@triton.jit(do_not_specialize=["key", "bound"])
def _drop_entries(
    x, rows, columns, nodes, scale, out, edges, key, bound, NUMBERED: tl.constexpr, EDGES: tl.constexpr
):  # fmt: skip
    """Drop stored values of a sparse matrix."""
    edge = tl.program_id(0).to(tl.int64) * EDGES + tl.arange(0, EDGES)
    live = edge < edges
    row = tl.load(rows + edge, mask=live, other=0)
    node = tl.load(nodes + row, mask=live, other=0) if NUMBERED else row
    column = tl.load(columns + edge, mask=live, other=0)
    values = tl.load(x + edge, mask=live, other=0.0) * tl.load(scale)
    tl.store(out + edge, tl.where(retained(node, column, key, bound), values, 0.0), mask=live)


@lru_cache(maxsize=64)
def constants(dtype: torch.dtype, device: torch.device, *values: float) -> Tensor:
    """Numbers that a kernel reads, which as its arguments would be rounded to float32."""
    return torch.tensor(values, dtype=dtype, device=device)


def dropout(x: Tensor, mask: Any) -> Tensor:
    """Drop entries of x [rows, f]."""
    out: Tensor = _Dropout.apply(x, mask)
    return out


def dropout_values(matrix: Operand, values: Tensor, mask: Any) -> Tensor:
    """Drop stored values [nnz]."""
    out: Tensor = _Dropout.apply(values, mask, matrix)
    return out


class _Dropout(torch.autograd.Function):
    """Dropout of rows, or of the values of a matrix."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, mask: Any, matrix: Operand | None = None) -> Tensor:
        ctx.mask, ctx.matrix = mask, matrix
        return _dropped(x.detach(), mask, matrix)

    @staticmethod
    @without_second_derivative
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None, None]:
        return _dropped(grad, ctx.mask, ctx.matrix), None, None


def _dropped(x: Tensor, mask: Any, matrix: Operand | None) -> Tensor:
    x = x.contiguous()
    out, scale = torch.empty_like(x), constants(x.dtype, x.device, mask.scale)
    drawing = mask.key, mask.bound, mask.nodes is not None
    if matrix is None:
        rows, width = x.shape
        columns = min(_COLUMNS, triton.next_power_of_2(width))
        grid = rows, triton.cdiv(width, columns)
        _drop_rows[grid](x, mask.nodes, scale, out, width, *drawing, columns, num_warps=1)
    else:
        edges, side = matrix.on(x.device), side_of(matrix, x.device)
        operands = x, edges.destinations, side.columns, mask.nodes, scale, out, matrix.nnz
        _drop_entries[(triton.cdiv(matrix.nnz, _EDGES),)](*operands, *drawing, _EDGES)
    return out
