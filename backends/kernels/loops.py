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
    or ``edge_weights`` at the edge's place in ``positions`` [nnz], its own where they are ``None``. Raises ValueError
    for a self loop in ``csr``, and for arrays of another length.
    """
    rows, columns = csr.shape
    _check_lengths(csr, scale, edge_weights, positions)
    dtype = index_dtype(max(csr.nnz + rows, columns))
    indptr, indices = (np.ascontiguousarray(array, dtype=dtype) for array in (csr.indptr, csr.indices))
    scale = None if scale is None else np.ascontiguousarray(scale, dtype=np.float64)
    if edge_weights is None or scale is None:
        edge_weights = positions = None
    elif positions is None:
        positions = np.arange(csr.nnz)
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


def _check_lengths(
    csr: Csr, scale: Floats | None, edge_weights: Floats | None, positions: NDArray[np.int64] | None
) -> None:
    """Raise ValueError for arrays that do not fit the matrix: a kernel would read beyond them."""
    rows, columns = csr.shape
    if rows > columns:
        raise ValueError(f"{rows} rows of {columns} columns have no self loops: each row must be a column")
    if len(csr.indptr) != rows + 1 or int(csr.indptr[-1]) != len(csr.indices):
        raise ValueError(f"indptr has {len(csr.indptr)} entries: {rows} rows need {rows + 1}, up to {len(csr.indices)}")
    if scale is not None and len(scale) != columns:
        raise ValueError(f"scale has {len(scale)} entries for {columns} columns: give one for each")
    if positions is not None and len(positions) != csr.nnz:
        raise ValueError(f"positions has {len(positions)} entries for {csr.nnz} edges: give one for each")
    if positions is None and edge_weights is not None and len(edge_weights) != csr.nnz:
        raise ValueError(f"edge_weights has {len(edge_weights)} entries for {csr.nnz} edges: give positions in them")
