"""From the rows of an edge file to a graph's edges: self loops dropped and counted, ids kept."""

import numpy as np
from numpy.typing import NDArray

from datasets.csr import Csr, check_edges, csr_from_edges, index_dtype

Ends = NDArray[np.integer]


def directed(sources: Ends, destinations: Ends, nodes: int) -> tuple[Csr, int]:
    """Make row i the edge ``sources[i] -> destinations[i]`` with id i; also return how many self loops were dropped."""
    check_edges(sources, destinations, (nodes, nodes))
    kept = np.flatnonzero(sources != destinations).astype(index_dtype(len(sources)))
    csr = csr_from_edges(sources[kept], destinations[kept], (nodes, nodes), kept)
    return csr, len(sources) - len(kept)


def undirected(first: Ends, second: Ends, nodes: int) -> tuple[Csr, int]:
    """Make row i the two edges i and i + rows; a self loop is dropped and counted once."""
    csr, loops = directed(np.concatenate([first, second]), np.concatenate([second, first]), nodes)
    return csr, loops // 2


def unique_pairs(first: Ends, second: Ends, nodes: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return every unordered pair once, smaller end first, sorted."""
    check_edges(first, second, (nodes, nodes))
    low, high = np.minimum(first, second).astype(np.int64), np.maximum(first, second).astype(np.int64)
    key = np.unique(low * nodes + high)
    return key // max(nodes, 1), key % max(nodes, 1)
