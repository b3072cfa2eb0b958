"""Reverse Cuthill-McKee order: breadth first from a vertex of low degree, which makes the bandwidth small."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from datasets.csr import Csr
from datasets.order.symmetric import symmetric


def rcm(csr: Csr) -> NDArray[np.int64]:
    """Order A + A^T by scipy's reverse Cuthill-McKee (George and Liu 1981)."""
    return np.zeros(0, dtype=np.int64) if csr.shape[0] == 0 else cuthill_mckee(symmetric(csr))


def cuthill_mckee(pattern: Any) -> NDArray[np.int64]:
    """Reverse Cuthill-McKee order of a symmetric scipy matrix of at least one row."""
    from scipy.sparse.csgraph import reverse_cuthill_mckee

    order: NDArray[np.int64] = reverse_cuthill_mckee(pattern, symmetric_mode=True).astype(np.int64)
    return order
