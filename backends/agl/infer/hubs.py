"""Sampling of GraphInfer's hubs in pieces: the in-edges of one suffix each, merged afterwards (``reindexing``)."""

from dataclasses import dataclass

import numpy as np

from backends.agl.infer.job import HubSamples, InferenceJob, Nodes
from backends.agl.reindexing import sample_parts, suffixes


@dataclass(frozen=True)
class HubPiece:
    """Part ``suffix`` of ``pieces`` of the in-edges of one hub."""

    node: int
    suffix: int
    pieces: int


def hub_pieces(job: InferenceJob, threshold: int) -> list[HubPiece]:
    """Pieces of about ``threshold`` in-edges of every node with more; none without sampling or with replacement."""
    if threshold < 1 or job.replacement or not job.spec.fanouts:
        return []
    degrees = np.diff(job.graph.csr.indptr)
    hubs = np.flatnonzero(degrees > threshold)
    counts = -(-degrees[hubs] // threshold)
    pieces = zip(hubs.tolist(), counts.tolist(), strict=True)
    return [HubPiece(node, suffix, count) for node, count in pieces for suffix in range(count)]


def sample_piece(job: InferenceJob, piece: HubPiece) -> Nodes:
    """Sample the edges of a piece by the largest fanout; returns their positions."""
    positions = np.arange(int(job.graph.csr.indptr[piece.node]), int(job.graph.csr.indptr[piece.node + 1]))
    positions = positions[suffixes(job.seed, _ids(job, positions), piece.pieces) == piece.suffix]
    return _sample_positions(job, np.zeros(len(positions), dtype=np.int64), positions, max(job.spec.fanouts))


def merge_samples(job: InferenceJob, pieces: list[HubPiece], samples: list[Nodes]) -> HubSamples | None:
    """Merge the samples of each hub's pieces into its sample, for every fanout (inverted indexing)."""
    if not pieces:
        return None
    owners = np.repeat([piece.node for piece in pieces], [len(sample) for sample in samples])
    nodes, counts = np.unique(owners, return_counts=True)
    positions = np.concatenate(samples)
    sampled = {fanout: _sample_positions(job, owners, positions, fanout) for fanout in sorted(set(job.spec.fanouts))}
    ends = {fanout: np.cumsum(np.minimum(counts, fanout))[:-1] for fanout in sampled}
    return HubSamples(nodes, {fanout: np.split(edges, ends[fanout]) for fanout, edges in sampled.items()})


def _sample_positions(job: InferenceJob, owners: Nodes, positions: Nodes, fanout: int) -> Nodes:
    """Sample the edges at ``positions``, whose destinations are ``owners``, by a fanout; sorted by destination."""
    sources = np.asarray(job.graph.csr.indices[positions])
    weight = None if job.graph.edge_weights is None else np.asarray(job.graph.edge_weights[positions])
    return positions[sample_parts(owners, sources, _ids(job, positions), weight, fanout, job.seed, job.sampler)]


def _ids(job: InferenceJob, positions: Nodes) -> Nodes:
    ids = job.graph.csr.edge_ids
    return positions if ids is None else np.asarray(ids[positions])
