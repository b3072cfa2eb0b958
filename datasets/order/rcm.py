"""Reverse Cuthill-McKee order: breadth first from a vertex of low degree, which makes the bandwidth small."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from datasets.csr import Csr
from datasets.order.symmetric import symmetric


def rcm(csr: Csr) -> NDArray[np.int64]:
    """Order A + A^T by reverse Cuthill-McKee (George and Liu 1981); ties by id."""
    return np.zeros(0, dtype=np.int64) if csr.shape[0] == 0 else cuthill_mckee(symmetric(csr))


def cuthill_mckee(pattern: Any) -> NDArray[np.int64]:
    """Reverse Cuthill-McKee order of a symmetric scipy matrix of at least one row, in time by its entries.

    Each component is searched from its vertex of the lowest degree; neighbours follow by degree; ties by id. scipy's
    own sorts the neighbours of each vertex by insertion, and leaves ties open.
    """
    from scipy.sparse.csgraph import breadth_first_order, connected_components

    by_degree = np.argsort(np.diff(pattern.indptr), kind="stable")
    ascending = pattern[by_degree][:, by_degree]
    ascending.sort_indices()  # neighbours are by degree, as the new numbers are
    _, component = connected_components(ascending, directed=False)
    starts = np.unique(component, return_index=True)[1]
    visited = breadth_first_order(_with_root(ascending, starts), len(by_degree), return_predecessors=False)[1:]
    order = visited[np.argsort(starts[component[visited]], kind="stable")]  # one component after the other
    return by_degree[order][::-1].astype(np.int64)


def _with_root(pattern: Any, starts: NDArray[np.int64]) -> Any:
    """The matrix with one more vertex, from which a search comes to ``starts``."""
    from scipy.sparse import csr_matrix

    indptr = np.append(pattern.indptr, len(pattern.indices) + len(starts))
    indices = np.concatenate((pattern.indices, starts.astype(pattern.indices.dtype)))
    nodes = len(indptr) - 1
    return csr_matrix((np.ones(len(indices), dtype=np.int32), indices, indptr), shape=(nodes, nodes))
