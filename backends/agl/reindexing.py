"""Hub re-indexing of GraphFlat and GraphInfer: in-edges of a node that has very many are sampled in parts and merged.

A random suffix of the node's key says which part an edge belongs to; stripping it brings the parts' samples together
(inverted indexing). The k smallest keys of a node are the k smallest of those of its parts, so the sample is that
without re-indexing (AGL, section 3.2.2).
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
    drawn: Ints = (hash_ids(seed, "suffix", ids) % np.uint64(parts)).astype(np.int64)
    return drawn


def sample_parts(
    destinations: NDArray[np.integer],
    sources: NDArray[np.integer],
    ids: NDArray[np.integer],
    weight: NDArray[Any] | None,
    fanout: int,
    seed: int,
    sampler: str,
) -> Ints:
    """Positions, by (destination, id), of the edges that ``fanout`` keeps of each destination: without replacement."""
    order = np.lexsort((ids, destinations))
    if not len(order):
        return order
    rows, counts = np.unique(destinations, return_counts=True)
    indptr = np.concatenate(([0], np.cumsum(counts)))
    csr = Csr(indptr, sources[order], (len(rows), int(sources.max()) + 1), ids[order])
    held = None if weight is None else weight[order]
    kept: Ints = order[sample_neighbors(csr, np.arange(len(rows)), fanout, seed, sampler, held).positions]
    return kept
