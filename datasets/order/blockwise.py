"""Blockwise order: any order, applied inside each block of rows that one process will own."""

from collections.abc import Mapping
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from datasets.csr import Csr
from datasets.options import unknown_name
from datasets.order.bounds import BOUNDS
from datasets.refusal import OrderRefused

if TYPE_CHECKING:
    from datasets.order import Renumbering


def blockwise(
    csr: Csr,
    inner: str = "rcm",
    blocks: int = 2,
    bounds: str = "rows",
    options: Mapping[str, Any] | None = None,
    seed: int = 0,
    inductive: bool = False,
) -> "Renumbering":
    """Order each diagonal block by ``inner`` with its ``options``; no node leaves its block (algorithm 2 of the paper).

    Blocks are contiguous rows, of equally many rows or of about equally many edges as ``bounds`` says; an engine that
    cut the new order by edges might cut elsewhere, so they are its parts. Edges of a block stay edges of the block, and
    rows that travel between processes stay as many. Raises OrderRefused for an inductive data set, whose training view
    has other blocks than the whole, and for more blocks than nodes.
    """
    from datasets.order import Renumbering, permutation_of

    if inner == "blockwise":
        raise ValueError("order blockwise with inner=blockwise: name the order of a block, such as rcm or metis")
    if bounds not in BOUNDS:
        raise ValueError(unknown_name("bounds", bounds, BOUNDS))
    if inductive:
        raise OrderRefused(
            "order blockwise: the data set is inductive, and the view that is trained has other blocks than the whole; "
            f"choose order={inner}"
        )
    cuts = BOUNDS[bounds](csr, blocks)
    order = [
        begin + permutation_of(inner, diagonal_block(csr, begin, end), options, seed)
        for begin, end in pairwise(cuts.tolist())
    ]
    return Renumbering(np.concatenate(order), cuts)


def diagonal_block(csr: Csr, begin: int, end: int) -> Csr:
    """Rows and columns from ``begin`` to below ``end``, renumbered from 0."""
    edges = slice(int(csr.indptr[begin]), int(csr.indptr[end]))
    inside = (csr.indices[edges] >= begin) & (csr.indices[edges] < end)
    counts = np.concatenate(([0], np.cumsum(inside)))[csr.indptr[begin : end + 1] - csr.indptr[begin]]
    indices = (csr.indices[edges][inside] - begin).astype(csr.indices.dtype)
    return Csr(counts.astype(csr.indptr.dtype), indices, (end - begin, end - begin))
