"""Orders from node ids, a seed or degrees alone: none, random, degree."""

import numpy as np
from numpy.typing import NDArray

from datasets.csr import Csr
from datasets.randomness import permutation


def none(csr: Csr) -> NDArray[np.int64]:
    """Keep the numbering of the data set."""
    return np.arange(csr.shape[0], dtype=np.int64)


def random(csr: Csr, seed: int = 0) -> NDArray[np.int64]:
    """Shuffle the vertices by a seeded hash."""
    return permutation(seed, "order", csr.shape[0])


def degree(csr: Csr) -> NDArray[np.int64]:
    """DegSort: descending in-degree plus out-degree, ties by id."""
    total = csr.in_degrees.astype(np.int64) + np.bincount(csr.indices, minlength=csr.shape[1])
    return np.argsort(-total, kind="stable")
