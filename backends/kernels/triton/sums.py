"""Weighted sums of rows over in-edges in Triton; sums of a hub's pieces are added in their order, so results repeat."""

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

from backends.kernels import plain
from backends.kernels.operand import Operand
from backends.kernels.triton.layout import RowPieces, Side, side_of

TILE = 1024  # entries that a program, one warp, reads at once: measured, as the others, on an H100
COLUMNS = 64  # of a row that one program adds up


@triton.jit
def _sum_rows(
    bounds, rows, slots, columns, weight, scale, x, out, partial, width,
    LISTED: tl.constexpr, WEIGHTED: tl.constexpr, SCALED: tl.constexpr, EDGES: tl.constexpr, COLUMNS: tl.constexpr,
):  # fmt: skip
    """``out[row] = scale * sum(weight * x[column])`` over a piece's edges, or its partial sum."""
    piece = tl.program_id(0).to(tl.int64)
    at = tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)
    inside = at < width
    begin, end = tl.load(bounds + piece), tl.load(bounds + piece + 1)
    total = tl.zeros([COLUMNS], dtype=x.dtype.element_ty)
    for first in range(begin, end, EDGES):
        edge = first + tl.arange(0, EDGES)
        live = edge < end
        column = tl.load(columns + edge, mask=live, other=0).to(tl.int64) if LISTED else edge
        values = tl.load(x + column[:, None] * width + at[None, :], mask=live[:, None] & inside[None, :], other=0.0)
        if WEIGHTED:
            values = values * tl.load(weight + edge, mask=live, other=0.0)[:, None]
        total += tl.sum(values, 0)
    slot, row = tl.load(slots + piece), tl.load(rows + piece)
    if slot >= 0:
        tl.store(partial + slot * width + at, total, mask=inside)
    else:
        if SCALED:
            total = total * tl.load(scale + row)
        tl.store(out + row * width + at, total, mask=inside)


def block_of(width: int) -> tuple[int, int]:
    """Columns and edges of a program's tile for rows of a width: powers of two."""
    columns = min(COLUMNS, triton.next_power_of_2(width))
    return columns, min(32, TILE // columns)


def add_rows(
    side: Side,
    x: Tensor,
    weight: Tensor | None = None,
    scale: Tensor | None = None,
    columns: Tensor | None = None,
    listed: bool = True,
) -> Tensor:
    """Sum rows of ``x`` over the edges of each row of a side, scaled by row: [rows, width].

    ``columns`` [nnz] replaces the side's own; without ``listed`` x holds a row for each edge.
    """
    x = x.contiguous()
    out, partial = (x.new_empty((rows, x.shape[1])) for rows in (side.count, side.pieces.partials))
    if out.numel() == 0:
        return out
    columns = (side.columns if columns is None else columns) if listed else None
    launch_sums(side.pieces, x, out, partial, columns, weight, scale)
    if side.pieces.hubs is not None:
        launch_sums(side.pieces.hubs, partial, out, partial, scale=scale)
    return out


def launch_sums(
    pieces: RowPieces,
    x: Tensor,
    out: Tensor,
    partial: Tensor,
    columns: Tensor | None = None,
    weight: Tensor | None = None,
    scale: Tensor | None = None,
) -> None:
    """Sum rows of ``x`` over pieces, into the rows of ``out`` or into ``partial``; ``columns=None``: a row per edge."""
    width = x.shape[1]
    block, edges = block_of(width)
    _sum_rows[(len(pieces), triton.cdiv(width, block))](
        pieces.bounds, pieces.rows, pieces.slots, columns, weight, scale, x, out, partial, width,
        columns is not None, weight is not None, scale is not None, edges, block, num_warps=1,
    )  # fmt: skip


def spmm(matrix: Operand, x: Tensor, weight: Tensor | None, reduce: str) -> Tensor:
    """Aggregate ``x`` [columns, f] by ``sum``, ``mean`` or ``max``."""
    if reduce == "max":
        return plain.spmm(matrix, x, weight, reduce)
    out: Tensor = _Sum.apply(matrix, weight, x, reduce == "mean")
    return out


def product(matrix: Operand, x: Tensor, weight: Tensor | None, addend: Tensor | None, transposed: bool) -> Tensor:
    """Weighted sum over the edges of either direction, plus ``addend``."""
    if transposed:
        weight = None if weight is None else matrix.transposed_weight(weight)
    out = add_rows(side_of(matrix, x.device, transposed), x, weight)
    return out if addend is None else out.add_(addend)


class _Sum(torch.autograd.Function):
    """Sum or mean over in-edges, weighted or not."""

    @staticmethod
    def forward(ctx: Any, matrix: Operand, weight: Tensor | None, x: Tensor, mean: bool) -> Tensor:
        ctx.matrix, ctx.mean = matrix, mean
        ctx.save_for_backward(weight, x if ctx.needs_input_grad[1] else None)
        scale = matrix.on(x.device).inverse_in_degrees(x.dtype) if mean else None
        return add_rows(side_of(matrix, x.device), x.detach(), None if weight is None else weight.contiguous(), scale)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[None, Tensor | None, Tensor | None, None]:
        weight, x = ctx.saved_tensors
        matrix: Operand = ctx.matrix
        grad_weight = grad_x = None
        if ctx.needs_input_grad[1]:
            rows = grad * matrix.on(grad.device).inverse_in_degrees(grad.dtype)[:, None] if ctx.mean else grad
            grad_weight = plain.sddmm(matrix, rows[:, None], x[:, None])[:, 0]
        if ctx.needs_input_grad[2]:
            weights = matrix.backward_weight(weight, ctx.mean, grad)
            grad_x = add_rows(side_of(matrix, grad.device, transposed=True), grad, weights)
        return None, grad_weight, grad_x, None
