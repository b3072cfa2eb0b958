"""Density, tile histogram and degree distribution of a graph: the structure that decides an SpMM's speed."""

from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from datasets.csr import Csr

TILE_BOUNDS = {
    "<1": 0.01,
    "1-2": 0.02,
    "2-5": 0.05,
    "5-10": 0.10,
    "10-20": 0.20,
    "20-35": 0.35,
    "35-50": 0.50,
    "50-75": 0.75,
    ">75": np.inf,
}
_CHUNK = 1 << 22


def graph_statistics(csr: Csr) -> dict[str, float | dict[str, float]]:
    """Return density, tile histogram and degree summary, ready for JSON; reports print them beside synthetic graphs."""
    return {"density": density(csr), "tiles": tile_histogram(csr), "degrees": degree_summary(csr)}


def rows_of_other_parts(csr: Csr, part_bounds: NDArray[np.int64]) -> int:
    """Rows that the parts of a graph in the order of its parts need of other parts, each once per part."""
    return sum(
        int(((sources < begin) | (sources >= end)).sum())
        for begin, end in pairwise(part_bounds.tolist())
        for sources in [np.unique(csr.indices[csr.indptr[begin] : csr.indptr[end]])]
    )


def density(csr: Csr) -> float:
    """Share of stored edges among all cells of the adjacency matrix."""
    cells = csr.shape[0] * csr.shape[1]
    return csr.nnz / cells if cells else 0.0


def tile_histogram(csr: Csr, tile: int = 32) -> dict[str, float]:
    """Share of the edges in ``tile`` x ``tile`` tiles of each density, in per cent of the tile's cells.

    A bin contains its lower bound, not its upper one; tiles cut by the border count as whole. Shares sum to 1.
    """
    if tile < 1:
        raise ValueError(f"tile {tile}: allowed are widths from 1, such as 32")
    edges = np.zeros(len(TILE_BOUNDS), dtype=np.int64)
    bounds = np.array(list(TILE_BOUNDS.values()))
    for first, last in _row_chunks(csr, tile):
        counts = _tile_counts(csr, first, last, tile)
        np.add.at(edges, np.searchsorted(bounds, counts / tile**2, side="right"), counts)
    return {name: float(share) for name, share in zip(TILE_BOUNDS, edges / max(csr.nnz, 1), strict=True)}


def degree_summary(csr: Csr) -> dict[str, float]:
    """Smallest, median, mean, 99th percentile and largest in-degree; share of edges into the top 1 % of nodes."""
    degrees = np.sort(csr.in_degrees.astype(np.int64))
    if not len(degrees):
        degrees = np.zeros(1, dtype=np.int64)
    top = degrees[-max(1, len(degrees) // 100) :]
    return {
        "min": float(degrees[0]),
        "median": float(np.median(degrees)),
        "mean": float(degrees.mean()),
        "p99": float(np.quantile(degrees, 0.99)),
        "max": float(degrees[-1]),
        "zero": float((degrees == 0).mean()),
        "top_1_percent": float(top.sum() / max(degrees.sum(), 1)),
    }


def _row_chunks(csr: Csr, tile: int) -> list[tuple[int, int]]:
    """Cut the rows at multiples of ``tile`` into runs of about ``_CHUNK`` edges."""
    starts = np.append(np.arange(0, csr.shape[0], tile), csr.shape[0])
    chunk = csr.indptr[starts].astype(np.int64) // _CHUNK
    cuts = np.unique(np.concatenate(([0], np.flatnonzero(np.diff(chunk)) + 1, [len(starts) - 1])))
    return [(int(starts[a]), int(starts[b])) for a, b in pairwise(cuts.tolist())]


def _tile_counts(csr: Csr, first: int, last: int, tile: int) -> NDArray[np.int64]:
    rows = np.repeat(np.arange(first, last, dtype=np.int64), csr.in_degrees[first:last])
    columns = csr.indices[csr.indptr[first] : csr.indptr[last]].astype(np.int64)
    width = -(-csr.shape[1] // tile)
    counts: NDArray[np.int64] = np.unique(rows // tile * width + columns // tile, return_counts=True)[1]
    return counts
