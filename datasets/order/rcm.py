"""Reverse Cuthill-McKee order: breadth first from a vertex of low degree, which makes the bandwidth small."""

import numpy as np
from numpy.typing import NDArray

from datasets.csr import Csr
from datasets.order.symmetric import symmetric


def rcm(csr: Csr) -> NDArray[np.int64]:
    """Order A + A^T by scipy's reverse Cuthill-McKee (George and Liu 1981)."""
    from scipy.sparse.csgraph import reverse_cuthill_mckee

    if csr.shape[0] == 0:
        return np.zeros(0, dtype=np.int64)
    order: NDArray[np.int64] = reverse_cuthill_mckee(symmetric(csr), symmetric_mode=True).astype(np.int64)
    return order
