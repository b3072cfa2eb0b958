"""Sampling of GraphInfer's hubs in pieces: a range of in-edges each, merged afterwards (``reindexing``).

Any cut of a hub's in-edges gives the same sample; ranges cost a piece its own edges alone.
"""

from dataclasses import dataclass

import numpy as np

from backends.agl.infer.job import HubSamples, InferenceJob, Nodes
from backends.agl.reindexing import sample_parts
from backends.kernels.samplers import SAMPLERS


@dataclass(frozen=True)
class HubPiece:
    """The in-edges of one hub at places ``first`` to below ``last`` of the table of edges."""

    node: int
    first: int
    last: int


def hub_pieces(job: InferenceJob, threshold: int) -> list[HubPiece]:
    """Pieces of up to ``threshold`` in-edges of every node with more; none where sampling does not read a whole row."""
    sampling = job.sampling
    if threshold < 1 or sampling.replacement or None in sampling.fanouts or SAMPLERS[sampling.method].by_place:
        return []
    indptr = job.edges.csr.indptr
    hubs = np.flatnonzero(np.diff(indptr) > threshold)
    rows = zip(hubs.tolist(), indptr[hubs].tolist(), indptr[hubs + 1].tolist(), strict=True)
    return [
        HubPiece(node, first, min(first + threshold, end))
        for node, start, end in rows
        for first in range(start, end, threshold)
    ]


def sample_piece(job: InferenceJob, piece: HubPiece) -> Nodes:
    """Sample the edges of a piece by the largest fanout; returns their places in the table of edges."""
    places = np.arange(piece.first, piece.last)
    return _sample_places(job, np.zeros(len(places), dtype=np.int64), places, max(_fanouts(job)))


def merge_samples(job: InferenceJob, pieces: list[HubPiece], samples: list[Nodes]) -> HubSamples | None:
    """Merge the samples of each hub's pieces into its sample, for every fanout (inverted indexing)."""
    if not pieces:
        return None
    owners = np.repeat([piece.node for piece in pieces], [len(sample) for sample in samples])
    nodes, counts = np.unique(owners, return_counts=True)
    places = np.concatenate(samples)
    sampled = {fanout: _sample_places(job, owners, places, fanout) for fanout in sorted(set(_fanouts(job)))}
    ends = {fanout: np.cumsum(np.minimum(counts, fanout))[:-1] for fanout in sampled}
    return HubSamples(nodes, {fanout: np.split(edges, ends[fanout]) for fanout, edges in sampled.items()})


def _fanouts(job: InferenceJob) -> list[int]:
    return [fanout for fanout in job.sampling.fanouts if fanout is not None]


def _sample_places(job: InferenceJob, owners: Nodes, places: Nodes, fanout: int) -> Nodes:
    """Sample the edges at ``places``, whose destinations are ``owners``, by a fanout; sorted by destination."""
    edges, sampling = job.edges, job.sampling
    weight = None if edges.weight is None else np.asarray(edges.weight[places])
    columns = owners, places, np.asarray(edges.csr.indices[places]), _ids(job, places), weight
    return places[sample_parts(*columns, fanout, sampling.seed, sampling.method)]


def _ids(job: InferenceJob, places: Nodes) -> Nodes:
    ids = job.edges.csr.edge_ids
    return places if ids is None else np.asarray(ids[places])
