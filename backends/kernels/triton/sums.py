"""Weighted sums of rows over in-edges in Triton; sums of a hub's pieces are added in their order, so results repeat.

A program adds up several pieces side by side, one edge of each at a time: a row's sum stays in the registers of a few
threads, whatever its length, and rows of few edges do not wait for one another.
"""

import triton
import triton.language as tl
from torch import Tensor

from backends.kernels.triton.layout import RowPieces, Side

COLUMNS = 64  # of a row that one program adds up: measured, as the others, on an H200
ENTRIES = 256  # of its pieces together
UNROLLED = 4  # edges of each piece that are read at once
NARROW_HEAD = 16  # columns below which a program adds up several heads


@triton.jit
def _sum_rows(
    begins, ends, rows, slots, count, columns, weight, scale, x, out, partial, heads, width, LISTED: tl.constexpr,
    WEIGHTED: tl.constexpr, SCALED: tl.constexpr, JOINED: tl.constexpr, SMALL: tl.constexpr, PIECES: tl.constexpr,
    COLUMNS: tl.constexpr, UNROLLED: tl.constexpr,
):  # fmt: skip
    """``out[row] = scale * sum(weight * x[column])`` over the edges of pieces, or their partial sums.

    A row is [heads, width] and an edge has a weight per head; ``JOINED`` programs add up columns of several heads.
    """
    piece = tl.program_id(0) * PIECES + tl.arange(0, PIECES)
    valid = piece < count
    stride, blocks = heads * width, tl.cdiv(width, COLUMNS)
    head = 0 if JOINED else tl.program_id(1) // blocks
    within = (tl.program_id(1) if JOINED else tl.program_id(1) % blocks) * COLUMNS + tl.arange(0, COLUMNS)
    inside, at = within < (stride if JOINED else width), head * width + within
    begin, end = tl.load(begins + piece, mask=valid, other=0), tl.load(ends + piece, mask=valid, other=0)
    total = tl.zeros([PIECES, COLUMNS], dtype=x.dtype.element_ty)
    for first in range(0, tl.max(end - begin, 0), UNROLLED):
        for step in tl.static_range(UNROLLED):
            edge = begin + first + step
            live = edge < end
            both = live[:, None] & inside[None, :]
            column = tl.load(columns + edge, mask=live, other=0) if LISTED else edge
            if not SMALL:
                column = column.to(tl.int64)
            values = tl.load(x + column[:, None] * stride + at[None, :], mask=both, other=0.0)
            if WEIGHTED:
                if JOINED:
                    place = edge.to(tl.int64)[:, None] * heads + (at // width)[None, :]
                    values = values * tl.load(weight + place, mask=both, other=0.0)
                else:
                    place = edge.to(tl.int64) * heads + head
                    values = values * tl.load(weight + place, mask=live, other=0.0)[:, None]
            total += values
    row = tl.load(rows + piece, mask=valid, other=0).to(tl.int64)
    slot = tl.load(slots + piece, mask=valid, other=0).to(tl.int64)
    whole = valid & (slot < 0)
    is_partial = (valid & (slot >= 0))[:, None] & inside[None, :]
    tl.store(partial + slot[:, None] * stride + at[None, :], total, mask=is_partial)
    if SCALED:
        total = total * tl.load(scale + row, mask=whole, other=0.0)[:, None]
    tl.store(out + row[:, None] * stride + at[None, :], total, mask=whole[:, None] & inside[None, :])


def block_of(width: int) -> tuple[int, int]:
    """Pieces and columns of a program for rows of a width: powers of two."""
    columns = min(COLUMNS, triton.next_power_of_2(width))
    return ENTRIES // columns, columns


def add_rows(
    side: Side,
    x: Tensor,
    weight: Tensor | None = None,
    scale: Tensor | None = None,
    columns: Tensor | None = None,
    listed: bool = True,
) -> Tensor:
    """Sum rows of ``x`` over the edges of each row of a side, scaled by row.

    x [columns, width] gives [rows, width]; x [columns, heads, width] with ``weight`` [nnz, heads] gives
    [rows, heads, width]. ``columns`` [nnz] replaces the side's own; without ``listed`` x holds a row for each edge.
    """
    x = x.contiguous()
    out = x.new_empty((side.count, *x.shape[1:]))
    columns = (side.columns if columns is None else columns) if listed else None
    launch_sums(side.pieces, x, out, columns, weight, scale)
    return out


def launch_sums(
    pieces: RowPieces,
    x: Tensor,
    out: Tensor,
    columns: Tensor | None = None,
    weight: Tensor | None = None,
    scale: Tensor | None = None,
) -> None:
    """Sum rows of ``x`` [any, (heads,) width] over pieces into rows of ``out``; ``columns=None``: one per edge."""
    if out.numel() == 0:
        return
    heads, width = (1, x.shape[1]) if x.dim() == 2 else x.shape[1:]
    joined = heads > 1 and width < NARROW_HEAD
    block, wide = block_of(heads * width if joined else width)
    programs = triton.cdiv(heads * width, wide) if joined else heads * triton.cdiv(width, wide)
    partial = x.new_empty((pieces.partials, *x.shape[1:]))
    _sum_rows[(triton.cdiv(len(pieces), block), programs)](
        pieces.begins, pieces.ends, pieces.rows, pieces.slots, len(pieces), columns, weight, scale, x, out, partial,
        heads, width, columns is not None, weight is not None, scale is not None, joined, x.numel() < 1 << 31, block,
        wide, UNROLLED, num_warps=2 if wide == COLUMNS else 4,
    )  # fmt: skip
    if pieces.hubs is not None:
        launch_sums(pieces.hubs, partial, out, scale=scale)
