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

    Block b begins at the row whose first edge is the nearest to b / blocks of all edges.
    """
    rows = csr.shape[0]
    _check(rows, blocks)
    shares = np.arange(1, blocks, dtype=np.float64) * csr.nnz / blocks
    after = np.searchsorted(csr.indptr, shares)
    before = np.maximum(after - 1, 0)
    nearer = shares - csr.indptr[before] < csr.indptr[np.minimum(after, rows)] - shares
    inner = np.where(nearer, before, after)
    # no block is empty: each bound leaves a row for every block before it and after it
    inner = np.maximum.accumulate(inner - np.arange(blocks - 1)) + np.arange(blocks - 1)
    inner = np.clip(inner, np.arange(1, blocks), rows - blocks + np.arange(1, blocks))
    return np.concatenate(([0], inner, [rows])).astype(np.int64)


def _check(rows: int, blocks: int) -> None:
    message = f"blocks={blocks} is not allowed for {rows} rows: give a whole number from 1 to {max(rows, 1)}"
    if not isinstance(blocks, int) or blocks < 1:
        raise ValueError(message)
    if blocks > max(rows, 1):
        raise OrderRefused(message)


BOUNDS: dict[str, Callable[[Csr, int], NDArray[np.int64]]] = {"rows": row_bounds, "edges": edge_bounds}
