"""Where the rows of a matrix are cut into contiguous blocks, one for each process or group of processes."""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from datasets.csr import Csr
from datasets.refusal import OrderRefused


def row_bounds(csr: Csr, blocks: int) -> NDArray[np.int64]:
    """Blocks of equally many rows: block b begins at floor(b * rows / blocks); [blocks + 1]."""
    rows = csr.shape[0]
    _check(rows, blocks)
    return np.arange(blocks + 1, dtype=np.int64) * rows // blocks


def edge_bounds(csr: Csr, blocks: int) -> NDArray[np.int64]:
    """Blocks of about equally many edges, none without a row; [blocks + 1].

    A row counts a block's share at most, so that a hub fills one block and the others share what it leaves. Block b
    begins at the row whose first edge is the nearest to b / blocks of what all rows count.
    """
    rows = csr.shape[0]
    _check(rows, blocks)
    in_degrees = np.diff(csr.indptr)
    # Rows together count less than an edge, and share the blocks where no edge does.
    counts = np.minimum(in_degrees, _largest_share(in_degrees, blocks)) + 1 / (rows + 1)
    ends = np.concatenate(([0.0], np.cumsum(counts)))
    shares = np.arange(1, blocks) * ends[-1] / blocks
    after = np.minimum(np.searchsorted(ends, shares), rows)
    before = np.maximum(after - 1, 0)
    inner = np.where(shares - ends[before] < ends[after] - shares, before, after)
    # no block is empty: each bound leaves a row for every block before it and after it
    inner = np.maximum.accumulate(inner - np.arange(blocks - 1)) + np.arange(blocks - 1)
    inner = np.clip(inner, np.arange(1, blocks), rows - blocks + np.arange(1, blocks))
    return np.concatenate(([0], inner, [rows])).astype(np.int64)


def _largest_share(in_degrees: NDArray[np.integer], blocks: int) -> float:
    """Edges of a block where each larger row has a block of its own and the others share the rest of the blocks."""
    rest, hubs = in_degrees, 0
    while True:
        share = float(rest.sum(dtype=np.int64)) / (blocks - hubs)
        smaller = rest[rest <= share]
        if len(smaller) == len(rest):
            return share
        hubs, rest = hubs + len(rest) - len(smaller), smaller


def _check(rows: int, blocks: int) -> None:
    message = f"blocks={blocks} is not allowed for {rows} rows: give a whole number from 1 to {max(rows, 1)}"
    if not isinstance(blocks, int) or blocks < 1:
        raise ValueError(message)
    if blocks > max(rows, 1):
        raise OrderRefused(message)


BOUNDS: dict[str, Callable[[Csr, int], NDArray[np.int64]]] = {"rows": row_bounds, "edges": edge_bounds}
