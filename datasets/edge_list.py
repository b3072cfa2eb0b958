"""Edge lists to CSR: rows of a file become directed edges, self loops are dropped and counted, ids are row numbers."""

import numpy as np
from numpy.typing import NDArray

from datasets.csr import Csr, check_edges, csr_from_edges, index_dtype

Ends = NDArray[np.integer]


def directed(sources: Ends, destinations: Ends, nodes: int) -> tuple[Csr, int]:
    """Build the CSR of edges ``sources[i] -> destinations[i]`` with id i; also return the number of dropped loops."""
    check_edges(sources, destinations, (nodes, nodes))
    rows = np.flatnonzero(sources != destinations).astype(index_dtype(len(sources)))
    csr = csr_from_edges(sources[rows], destinations[rows], (nodes, nodes), rows)
    return csr, len(sources) - len(rows)


def undirected(first: Ends, second: Ends, nodes: int) -> tuple[Csr, int]:
    """Build the CSR in which row i becomes the edges i and i + rows; a self loop is dropped and counted once."""
    csr, loops = directed(np.concatenate([first, second]), np.concatenate([second, first]), nodes)
    return csr, loops // 2


def unique_pairs(first: Ends, second: Ends, nodes: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return every unordered pair once, smaller end first, sorted."""
    check_edges(first, second, (nodes, nodes))
    low, high = np.minimum(first, second).astype(np.int64), np.maximum(first, second).astype(np.int64)
    key = np.unique(low * nodes + high)
    return key // max(nodes, 1), key % max(nodes, 1)
