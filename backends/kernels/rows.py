"""Some rows of a matrix with all its columns: a batch's deepest edges, read where the graph's features lie."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.autograd.function import once_differentiable

from backends.kernels.buffers import empty
from backends.kernels.fused import multiply
from backends.kernels.native import native, threads, workers
from backends.kernels.operand import operand, part_of
from datasets.csr import Csr, index_dtype

_LIKE_WHOLE = 2  # a transposed edge costs about twice what an edge that sends zeros does
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
    return part_of(csr, Csr(starts, indices, (len(rows), csr.shape[1]))), weights


@dataclass(frozen=True, eq=False)
class Rows:
    """Rows of a matrix, each once, of which a part was made; ``weight`` [nnz] belongs to the ``whole``."""

    whole: Csr
    weight: Tensor | None
    rows: Tensor

    def serve(self, part: Csr) -> bool:
        """Whether gradients are cheaper through the whole's kept transpose than through a new one of the ``part``."""
        return native is not None and _LIKE_WHOLE * part.nnz >= self.whole.nnz


def spmm_with_own(
    csr: Csr, x: Tensor, weight: Tensor | None, reduce: str, taken: Rows, own: bool
) -> tuple[Tensor, Tensor | None]:
    """``spmm`` over rows that were ``taken`` as ``csr``, and where asked the ``own`` rows of ``x`` [columns, f].

    ``reduce`` is ``sum`` or ``mean``. Autograd in ``x``, through the whole's transpose: rows that were not taken send
    zeros. Needs the extension.
    """
    found: tuple[Tensor, Tensor | None] = _Spread.apply(csr, weight, x, reduce == "mean", taken, own)
    return found


class _Spread(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, csr: Csr, weight: Tensor | None, x: Tensor, mean: bool, taken: Rows, own: bool
    ) -> tuple[Tensor, Tensor | None]:
        part, x = operand(csr), x.detach().contiguous()
        scale = part.inverse_in_degrees.to(x.dtype) if mean else None
        ctx.taken = taken
        ctx.save_for_backward(scale)
        return multiply(part.forward, x, weight, scale), x.index_select(0, taken.rows) if own else None

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor, grad_own: Tensor | None) -> tuple[Tensor | None, ...]:
        (scale,), taken = ctx.saved_tensors, ctx.taken
        whole, grad = operand(taken.whole), grad.contiguous()
        spread = empty((whole.shape[0], grad.shape[1]), grad.dtype)
        native.spread_rows(grad, scale, taken.rows.numpy(), spread, workers(spread.numel(), 1))
        weight = None if taken.weight is None else whole.turned(taken.weight)
        grad_x = multiply(whole.backward, spread, weight, None)
        if grad_own is not None:
            native.add_rows(grad_own.contiguous(), taken.rows.numpy(), grad_x, workers(grad_own.numel(), 1))
        return None, None, grad_x, None, None, None


def count_sources(csr: Csr) -> int:
    """How many columns of ``csr`` have at least one edge."""
    if native is None:
        return len(np.unique(csr.indices))
    found: int = native.count_distinct(np.ascontiguousarray(csr.indices), csr.shape[1], threads())
    return found


def _contiguous(csr: Csr) -> tuple[NDArray[Any], NDArray[Any]]:
    return np.ascontiguousarray(csr.indptr), np.ascontiguousarray(csr.indices)
