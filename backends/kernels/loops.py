"""The matrix of a batch's layer with self loops and, for gcn, symmetric weights."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from backends.kernels.extension import extension, threads
from datasets.csr import Csr, index_dtype

Floats = NDArray[np.floating[Any]]


def with_self_loops(
    csr: Csr,
    scale: Floats | None = None,
    edge_weights: Floats | None = None,
    positions: NDArray[np.int64] | None = None,
) -> tuple[Csr, NDArray[np.float32] | None]:
    """Put a self loop at the beginning of each row of ``csr``, whose rows are its first columns.

    With ``scale`` [columns] also return the weights [nnz + rows] ``scale[row] * w * scale[column]``, where ``w`` is 1
    or ``edge_weights`` at the edge's place in ``positions`` [nnz]. Raises ValueError for a self loop in ``csr``.
    """
    rows, columns = csr.shape
    dtype = index_dtype(max(csr.nnz + rows, columns))
    indptr, indices = (np.ascontiguousarray(array, dtype=dtype) for array in (csr.indptr, csr.indices))
    scale = None if scale is None else np.ascontiguousarray(scale, dtype=np.float64)
    if edge_weights is None or scale is None:
        edge_weights = positions = None
    if extension is not None:
        readable = edge_weights if edge_weights is None else np.ascontiguousarray(edge_weights)
        places = None if positions is None else np.ascontiguousarray(positions, dtype=np.int64)
        looped = extension.add_self_loops(indptr, indices, columns, scale, readable, places, threads())
        return Csr(looped[0], looped[1], csr.shape), looped[2]
    sources = np.insert(indices, indptr[:-1], np.arange(rows))
    bounds = (indptr + np.arange(rows + 1)).astype(dtype)
    destinations = np.repeat(np.arange(rows), np.diff(bounds))
    if np.count_nonzero(sources == destinations) > rows:
        raise ValueError("a row has an edge from itself: the matrix gets one for each row")
    weight = None
    if scale is not None:
        own = np.ones(csr.nnz) if edge_weights is None else np.asarray(edge_weights, dtype=np.float64)[positions]
        weight = (scale[destinations] * np.insert(own, indptr[:-1], 1.0) * scale[sources]).astype(np.float32)
    return Csr(bounds, sources, csr.shape), weight
