"""Some rows of a matrix with all its columns: a batch's deepest edges, read where the graph's features lie."""

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from backends.kernels.native import native, threads, workers
from datasets.csr import Csr, index_dtype

_WIDTH = 4  # a copied edge costs about what four columns of a product do


def take_rows(csr: Csr, rows: NDArray[np.int64], weight: Tensor | None = None) -> tuple[Csr, Tensor | None]:
    """Copy ``rows``, in that order, and their edges' ``weight`` [nnz]: a matrix [len(rows), columns] without edge ids.

    Only those rows are read. Raises ValueError for rows that are not in the matrix.
    """
    bad = np.flatnonzero((rows < 0) | (rows >= csr.shape[0]))
    if len(bad):
        raise ValueError(f"row {rows[bad[0]]} is not in the matrix: allowed are 0 to {csr.shape[0] - 1}")
    begins = csr.indptr[rows].astype(np.int64)
    counts = csr.indptr[rows + 1] - begins
    starts = np.concatenate(([0], np.cumsum(counts)))
    dtype = np.result_type(csr.indices.dtype, index_dtype(int(starts[-1])))
    starts = starts.astype(dtype)
    if native is None or csr.indptr.dtype != dtype or csr.indices.dtype != dtype:
        positions = np.arange(int(starts[-1])) + np.repeat(begins - starts[:-1], counts)
        kept = Csr(starts, csr.indices[positions].astype(dtype), (len(rows), csr.shape[1]))
        return kept, None if weight is None else weight[torch.from_numpy(positions)]
    indices = np.empty(int(starts[-1]), dtype=dtype)
    kind: Any = torch.float32 if weight is None else weight.dtype
    weights = None if weight is None else torch.empty(len(indices), dtype=kind)
    used = workers(len(indices), _WIDTH)
    native.copy_rows(*_contiguous(csr), weight, np.ascontiguousarray(rows), starts, indices, weights, used)
    return Csr(starts, indices, (len(rows), csr.shape[1])), weights


def count_sources(csr: Csr) -> int:
    """How many columns of ``csr`` have at least one edge."""
    if native is None:
        return len(np.unique(csr.indices))
    found: int = native.count_distinct(np.ascontiguousarray(csr.indices), csr.shape[1], threads())
    return found


def _contiguous(csr: Csr) -> tuple[NDArray[Any], NDArray[Any]]:
    return np.ascontiguousarray(csr.indptr), np.ascontiguousarray(csr.indices)
