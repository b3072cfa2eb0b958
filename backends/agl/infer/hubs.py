"""Hubs of GraphInfer: their in-edges are sampled in pieces, each of one suffix, which are merged (``reindexing``)."""

from dataclasses import dataclass

import numpy as np

from backends.agl.infer.job import Hubs, Job, Nodes
from backends.agl.reindexing import sample_parts, suffixes


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
    mine = np.arange(int(job.graph.csr.indptr[piece.node]), int(job.graph.csr.indptr[piece.node + 1]))
    mine = mine[suffixes(job.seed, _ids(job, mine), piece.of) == piece.suffix]
    return _sampled(job, np.zeros(len(mine), dtype=np.int64), mine, max(job.spec.fanouts))


def merged(job: Job, pieces: list[Piece], samples: list[Nodes]) -> Hubs | None:
    """Strip the suffixes: the sample of each hub from those of its pieces, for every fanout."""
    if not pieces:
        return None
    owners = np.repeat([piece.node for piece in pieces], [len(sample) for sample in samples])
    nodes, counts = np.unique(owners, return_counts=True)
    held = np.concatenate(samples)
    kept = {fanout: _sampled(job, owners, held, fanout) for fanout in sorted(set(job.spec.fanouts))}
    ends = {fanout: np.cumsum(np.minimum(counts, fanout))[:-1] for fanout in kept}
    return Hubs(nodes, {fanout: np.split(edges, ends[fanout]) for fanout, edges in kept.items()})


def _sampled(job: Job, owners: Nodes, positions: Nodes, fanout: int) -> Nodes:
    """The edges at ``positions``, of the nodes ``owners``, that a fanout keeps: node by node."""
    sources = np.asarray(job.graph.csr.indices[positions])
    weight = None if job.graph.edge_weights is None else np.asarray(job.graph.edge_weights[positions])
    return positions[sample_parts(owners, sources, _ids(job, positions), weight, fanout, job.seed, job.sampler)]


def _ids(job: Job, positions: Nodes) -> Nodes:
    ids = job.graph.csr.edge_ids
    return positions if ids is None else np.asarray(ids[positions])
