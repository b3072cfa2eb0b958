"""The transpose of a matrix and the permutation of its edges: once per matrix, in mini batches once per batch."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from backends.kernels.extension import extension, workers
from datasets.csr import Csr

_WIDTH = 8  # transposing an edge takes about as long as eight columns of a product

Indices = NDArray[np.signedinteger[Any]]


@dataclass(frozen=True, eq=False)
class Transpose:
    """The same edges by source: row starts [columns + 1], rows [nnz], and both permutations between the orders.

    Edge i here is edge ``permutation[i]`` of the matrix, whose edge e is ``inverse[e]`` here.
    """

    indptr: Indices
    indices: Indices
    permutation: Indices
    inverse: Indices


def transposed(indptr: Indices, indices: Indices, shape: tuple[int, int]) -> Transpose:
    """Transpose a checked matrix whose arrays have one type; edges of a column stay in their order."""
    if extension is None:
        return plain_transpose(indptr, indices, shape)
    starts = np.empty(shape[1] + 1, dtype=indices.dtype)
    rows, permutation, inverse = (np.empty_like(indices) for _ in range(3))
    extension.transpose(indptr, indices, starts, rows, permutation, inverse, workers(len(indices), _WIDTH))
    return Transpose(starts, rows, permutation, inverse)


def plain_transpose(indptr: Indices, indices: Indices, shape: tuple[int, int]) -> Transpose:
    """Transpose in numpy, where the extension is not built; the native transpose equals it bit for bit."""
    flipped, order = Csr(indptr, indices, shape).transpose
    permutation = order.astype(indices.dtype, copy=False)
    inverse = np.empty_like(permutation)
    inverse[permutation] = np.arange(len(indices), dtype=indices.dtype)
    starts, rows = (array.astype(indices.dtype, copy=False) for array in (flipped.indptr, flipped.indices))
    return Transpose(starts, rows, permutation, inverse)
