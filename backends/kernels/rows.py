"""Copies of some rows of a matrix, with all columns: the deepest layer of a batch over the whole graph's features."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from backends.kernels.checks import check_values
from backends.kernels.dispatch import implementation
from backends.kernels.extension import extension, threads, workers
from backends.kernels.operand import operand, register_rows
from datasets.csr import Csr, index_dtype

_TRANSPOSED_COST = 2  # transposing an edge takes about twice as long as multiplying an edge with a zero row
_WIDTH = 4  # copying an edge takes about as long as four columns of a product


def take_rows(csr: Csr, rows: NDArray[np.int64], weight: Tensor | None = None) -> tuple[Csr, Tensor | None]:
    """Copy ``rows``, in that order, and their edges' ``weight`` [nnz]: a matrix [len(rows), columns] without edge ids.

    Only those rows are read. Raises ValueError for rows that are not in the matrix.
    """
    operand(csr)  # checks the arrays
    if weight is not None and weight.shape != (csr.nnz,):
        raise ValueError(f"weight has shape {tuple(weight.shape)}: {csr.nnz} edges need ({csr.nnz},)")
    if weight is not None:
        check_values("weight", weight)
    if rows.ndim != 1 or rows.dtype.kind not in "iu":
        raise ValueError(f"rows are {rows.dtype} {list(rows.shape)}: one axis of integers is needed")
    bad = np.flatnonzero((rows < 0) | (rows >= csr.shape[0]))
    if len(bad):
        raise ValueError(f"row {rows[bad[0]]} is not in the matrix: allowed are 0 to {csr.shape[0] - 1}")
    begins = csr.indptr[rows].astype(np.int64)
    counts = csr.indptr[rows + 1] - begins
    starts = np.concatenate(([0], np.cumsum(counts)))
    dtype = np.result_type(csr.indices.dtype, index_dtype(int(starts[-1])))
    starts = starts.astype(dtype)
    if extension is None or csr.indptr.dtype != dtype or csr.indices.dtype != dtype:
        positions = np.arange(int(starts[-1])) + np.repeat(begins - starts[:-1], counts)
        part = Csr(starts, csr.indices[positions].astype(dtype), (len(rows), csr.shape[1]))
        return part, None if weight is None else weight[torch.from_numpy(positions)]
    indices = np.empty(int(starts[-1]), dtype=dtype)
    kind: Any = torch.float32 if weight is None else weight.dtype
    weights = None if weight is None else torch.empty(len(indices), dtype=kind)
    extension.copy_rows(
        *_contiguous(csr), None if weight is None else weight.detach().contiguous(),
        np.ascontiguousarray(rows, dtype=np.int64), starts, indices, weights, workers(len(indices), _WIDTH),
    )  # fmt: skip
    return register_rows(csr, Csr(starts, indices, (len(rows), csr.shape[1]))), weights


@dataclass(frozen=True, eq=False)
class MatrixRows:
    """The matrix ``csr``, its ``weight`` [nnz], and the ``rows`` copied out of it, each once."""

    csr: Csr
    weight: Tensor | None
    rows: Tensor

    def has_cheaper_transpose(self, part: Csr) -> bool:
        """Whether gradients take less time by the cached transpose of ``csr`` than by transposing the ``part``."""
        return extension is not None and _TRANSPOSED_COST * part.nnz >= self.csr.nnz


def spmm_with_own(
    csr: Csr, x: Tensor, weight: Tensor | None, reduce: str, origin: MatrixRows, with_own: bool
) -> tuple[Tensor, Tensor | None]:
    """Aggregate ``x`` [columns, f] over ``csr``, rows of ``origin``; ``with_own`` also returns these rows of ``x``.

    ``reduce`` is ``sum`` or ``mean``. Autograd in ``x``; native code multiplies with the transpose of the origin, in
    which rows that were not copied have zero gradients.
    """
    matrix, kernels = operand(csr), implementation("x", x)
    fused = getattr(kernels, "spmm_with_own", None)
    if fused is None:
        return kernels.spmm(matrix, x, weight, reduce), x.index_select(0, origin.rows) if with_own else None
    sums: tuple[Tensor, Tensor | None] = fused(matrix, x, weight, reduce, origin, with_own)
    return sums


def count_sources(csr: Csr) -> int:
    """How many columns of ``csr`` have at least one edge."""
    operand(csr)  # checks the arrays
    if extension is None:
        return len(np.unique(csr.indices))
    count: int = extension.count_distinct(np.ascontiguousarray(csr.indices), csr.shape[1], threads())
    return count


def _contiguous(csr: Csr) -> tuple[NDArray[Any], NDArray[Any]]:
    return np.ascontiguousarray(csr.indptr), np.ascontiguousarray(csr.indices)
