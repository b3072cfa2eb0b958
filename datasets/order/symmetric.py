"""The pattern of A + A^T, the undirected graph that locality orders work on."""

from typing import Any

import numpy as np

from datasets.csr import Csr
from datasets.refusal import OrderRefused


def symmetric(csr: Csr) -> Any:
    """Return the pattern of A + A^T as a scipy CSR matrix: no self loops, no parallel edges, columns sorted."""
    from scipy.sparse import csr_matrix

    largest = np.iinfo(np.int32).max
    if 2 * csr.nnz > largest:
        raise OrderRefused(
            f"{csr.nnz} edges: orders over A + A^T take at most {largest // 2}, choose order none, random or degree"
        )
    pattern = csr_matrix((np.ones(csr.nnz, dtype=np.int32), csr.indices, csr.indptr), shape=csr.shape)
    both = (pattern + pattern.T).tocsr()
    both.setdiag(0)
    both.eliminate_zeros()
    both.sort_indices()
    return both
