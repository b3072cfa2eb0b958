"""Hub re-indexing (AGL, section 3.2.2): the in-edges of a hub are sampled in parts, and the samples merged.

A random suffix of the node's key assigns each in-edge to a part; dropping the suffix (inverted indexing) brings the
samples of the parts together. Samplers with keys keep the k smallest of a node, which are the k smallest of those that
its parts kept, so the sample equals that without re-indexing. Uniform samples are drawn from the in-degree alone: no
hub is read, and none needs parts.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from backends.kernels import sample_neighbors
from datasets.csr import Csr
from datasets.randomness import hash_ids

Ints = NDArray[np.int64]


def suffixes(seed: int, ids: NDArray[np.integer], parts: int) -> Ints:
    """Part of each edge id, 0 to ``parts - 1``."""
    parts_of_edges: Ints = (hash_ids(seed, "suffix", ids) % np.uint64(parts)).astype(np.int64)
    return parts_of_edges


def sample_parts(
    destinations: NDArray[np.integer],
    positions: Ints,
    sources: NDArray[np.integer],
    ids: NDArray[np.integer],
    weight: NDArray[Any] | None,
    fanout: int,
    seed: int,
    sampler: str,
) -> Ints:
    """Sample at most ``fanout`` edges per destination by keys; returns places in the arguments by (destination, rank).

    ``positions`` are those in the whole graph's edge order.
    """
    order = np.argsort(positions)
    if not len(order):
        return order
    rows, counts = np.unique(destinations, return_counts=True)
    indptr = np.concatenate(([0], np.cumsum(counts)))
    csr = Csr(indptr, sources[order], (len(rows), int(sources.max()) + 1), ids[order])
    sorted_weight = None if weight is None else weight[order]
    sample = sample_neighbors(csr, np.arange(len(rows)), fanout, seed, sampler, sorted_weight)
    sampled: Ints = order[sample.positions]
    return sampled
