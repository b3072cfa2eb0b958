"""Hub re-indexing: the in-edges of a node that has very many are sampled in pieces, which are merged (AGL, 3.2.2).

A piece is what a random suffix of the node's key would bring together: edges are dealt to pieces by a hash. The k
smallest keys of a node are the k smallest of those of its pieces, so the result is that without re-indexing.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from backends.agl.infer.job import Hubs, Job, Nodes
from backends.kernels import sample_neighbors
from datasets.csr import Csr
from datasets.randomness import hash_ids


@dataclass(frozen=True)
class Piece:
    """Part ``suffix`` of ``of`` of the in-edges of one hub."""

    node: int
    suffix: int
    of: int


def pieces_of(job: Job, threshold: int) -> list[Piece]:
    """The pieces, of about ``threshold`` edges, of every node that has more; none where nothing is drawn by key."""
    if threshold < 1 or job.replace or not job.spec.fanouts:
        return []
    degrees = np.diff(job.graph.csr.indptr)
    found = np.flatnonzero(degrees > threshold)
    counts = -(-degrees[found] // threshold)
    return [Piece(int(node), at, int(of)) for node, of in zip(found, counts, strict=True) for at in range(of)]


def partial_sample(job: Job, piece: Piece) -> Nodes:
    """Positions of the edges of a piece that the largest fanout keeps."""
    csr = job.graph.csr
    mine = np.arange(int(csr.indptr[piece.node]), int(csr.indptr[piece.node + 1]))
    suffix = hash_ids(job.seed, "hub suffix", mine) % np.uint64(piece.of)
    return _smallest(job, mine[suffix == piece.suffix], max(job.spec.fanouts))


def merged(job: Job, pieces: list[Piece], samples: list[Nodes]) -> Hubs | None:
    """Strip the suffixes: the sample of each hub from those of its pieces, for every fanout."""
    if not pieces:
        return None
    owners = np.array([piece.node for piece in pieces])
    nodes = np.unique(owners)
    held = [np.concatenate([samples[at] for at in np.flatnonzero(owners == node)]) for node in nodes]
    fanouts = sorted(set(job.spec.fanouts))
    return Hubs(nodes, {fanout: [_smallest(job, edges, fanout) for edges in held] for fanout in fanouts})


def _smallest(job: Job, positions: Nodes, fanout: int) -> NDArray[np.int64]:
    """The edges at ``positions``, all of one node, that a fanout keeps."""
    csr, weight = job.graph.csr, job.graph.edge_weights
    ids = positions if csr.edge_ids is None else np.asarray(csr.edge_ids[positions])
    row = Csr(np.array([0, len(positions)]), np.asarray(csr.indices[positions]), (1, csr.shape[1]), ids)
    mine = None if weight is None else np.asarray(weight[positions])
    return positions[sample_neighbors(row, np.zeros(1, np.int64), fanout, job.seed, job.sampler, mine).positions]
