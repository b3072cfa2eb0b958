"""Dense tiles of 32 x 32 in Triton (Hetu-GNN, algorithm 3): ``tl.dot`` in full float32, the other edges as rows.

On a GPU, too, a tile costs the same whatever is in it: it pays where its edges would take longer one by one.
"""

import weakref
from dataclasses import replace

import numpy as np
import torch
import triton
import triton.language as tl
from torch import Tensor

from backends.kernels.tiles import SIDE, Tiles
from backends.kernels.triton.layout import RowPieces, Side
from backends.kernels.triton.sums import launch_sums

PIECE = 32  # tiles that one program multiplies
COLUMNS = 64


@triton.jit
def _add_tiles(
    begins, ends, rows, slots, starts, columns, values, x, out, partial, count, width, SIDE: tl.constexpr,
    COLUMNS: tl.constexpr,
):  # fmt: skip
    """Add the products of a piece's tiles to a block of rows of ``out``, or store their partial sum.

    The first piece of a block that is cut also takes what is in ``out``, which has whole blocks; x has ``count`` rows.
    """
    piece, side = tl.program_id(0), tl.arange(0, SIDE).to(tl.int64)
    at = tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)
    inside = (at < width)[None, :]
    begin, end = tl.load(begins + piece), tl.load(ends + piece)
    block, slot = tl.load(rows + piece).to(tl.int64), tl.load(slots + piece).to(tl.int64)
    place = (block * SIDE + side)[:, None] * width + at[None, :]
    taken = tl.where(begin == tl.load(starts + block), width, 0)
    total = tl.load(out + place, mask=(at < taken)[None, :], other=0.0)
    for tile in range(begin, end):
        first = tl.load(columns + tile)
        left = tl.load(values + (tile * SIDE + side)[:, None] * SIDE + side[None, :])
        is_cell = (first + side < count)[:, None] & inside
        right = tl.load(x + (first + side)[:, None] * width + at[None, :], mask=is_cell, other=0.0)
        total = tl.dot(left, right, total, input_precision="ieee", out_dtype=total.dtype)
    if slot >= 0:
        tl.store(partial + (slot * SIDE + side)[:, None] * width + at[None, :], total, mask=inside)
    else:
        tl.store(out + place, total, mask=inside)


class _OnDevice:
    """The tiles of one direction, and the rest of its edges, on a device."""

    def __init__(self, tiles: Tiles, device: torch.device) -> None:
        blocks = np.flatnonzero(np.diff(tiles.starts))
        bounds = np.append(tiles.starts[blocks], tiles.starts[-1])
        self.pieces = RowPieces.of(bounds, device, PIECE, blocks)
        self.starts, self.columns = (torch.from_numpy(array).to(device) for array in (tiles.starts, tiles.columns))
        moved = {name: getattr(tiles, name).to(device) for name in ("edges", "cells", "rest_edges")}
        self.tiles, self.rest = replace(tiles, **moved, splits=None), Side.of(tiles.rest, device)


_ON_DEVICE: "weakref.WeakKeyDictionary[Tiles, dict[torch.device, _OnDevice]]" = weakref.WeakKeyDictionary()


def multiply_tiles(tiles: Tiles, x: Tensor, weight: Tensor | None) -> Tensor:
    """Weighted sum of rows of ``x`` [columns, width] over the tiles and the rest of a direction's edges."""
    known = _ON_DEVICE.setdefault(tiles, {})
    if x.device not in known:
        known[x.device] = _OnDevice(tiles, x.device)
    there, width = known[x.device], x.shape[1]
    values, rest_weight = there.tiles.split(weight, x.dtype)
    rows = there.rest.count
    out = x.new_empty((-(-rows // SIDE) * SIDE, width))
    launch_sums(there.rest.pieces, x, out[:rows], there.rest.columns, rest_weight)
    pieces, columns = there.pieces, max(16, min(COLUMNS, triton.next_power_of_2(width)))
    if not len(pieces) or out.numel() == 0:
        return out.resize_(rows, width)
    partial = x.new_empty((pieces.partials, SIDE * width))
    _add_tiles[(len(pieces), triton.cdiv(width, columns))](
        pieces.begins, pieces.ends, pieces.rows, pieces.slots, there.starts, there.columns, values, x, out, partial,
        len(x), width, SIDE, columns, num_warps=4,
    )  # fmt: skip
    if pieces.hubs is not None:
        launch_sums(pieces.hubs, partial, out.view(-1, SIDE * width))
    return out.resize_(rows, width)  # no slice: autograd lets no view be changed in place that was made here
