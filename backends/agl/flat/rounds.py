"""One round of GraphFlat as functions of arrays, for local runs and tasks: requests, their in-edges, new requests.

A request is a pair (target, node), encoded as ``target * nodes + node`` with targets numbered from 0: the target's
neighbourhood needs the in-edges of the node. Round 1 requests the targets themselves, each further round the sources of
the edges that the round before returned. Expanding outwards from the targets yields the same neighbourhoods as the
paper's merging towards them (AGL, section 3.2.1), without work for nodes that no target needs.

``sample_parts`` serves the re-indexing of hubs (``mapreduce``, section 3.2.2): the k smallest keys of a node are the k
smallest of those that its parts kept.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from backends.agl.flat.sampling_strategy import SamplingStrategy
from backends.kernels import sample_neighbors
from backends.kernels.samplers import SummedWeights, Weights
from backends.kernels.sampling import distinct, first_neighbors
from datasets.csr import Csr

Ints = NDArray[np.int64]


class EdgeColumns:
    """A dataclass of columns with a value per edge each, or ``None``."""

    def take(self, rows: Any) -> Self:
        """Return the edges at some rows."""
        return type(self)(*(None if column is None else column[rows] for column in vars(self).values()))

    @classmethod
    def concatenate(cls, parts: Sequence[Self]) -> Self:
        """Join parts, one after the other."""
        columns = zip(*(vars(part).values() for part in parts), strict=True)
        return cls(*(None if column[0] is None else np.concatenate(column) for column in columns))


@dataclass(frozen=True, eq=False)
class RequestedEdges(EdgeColumns):
    """Edges of neighbourhoods: edge i answers the request ``requests[i]``, whose node is its destination.

    ``sources`` are node numbers and ``positions`` indices into the edge order of the whole graph; ``ranks`` are places
    in the sampling order of the destination.
    """

    requests: Ints
    sources: Ints
    ranks: Ints
    positions: Ints


@dataclass(frozen=True, eq=False)
class InEdges(EdgeColumns):
    """In-edges keyed by destination; ``positions`` index the whole graph's edge order."""

    destinations: Ints
    sources: NDArray[np.integer]
    ids: NDArray[np.integer]
    positions: Ints
    weight: NDArray[np.float32] | None = None


@dataclass(frozen=True, eq=False)
class InEdgeTable:
    """In-edges of some nodes: row i of ``csr`` is node ``nodes[i]`` (ascending; ``None``: all), columns are all nodes.

    ``weight`` [nnz] is the column of weighted and topk sampling, ``positions`` [nnz] index the whole graph's edge order
    (``None``: the edges are all, in that order). ``sampled``: rows are samples already, by rank. ``sums`` [nnz] are
    those of ``SummedWeights``.
    """

    csr: Csr
    weight: NDArray[np.floating] | None = None
    nodes: Ints | None = None
    positions: Ints | None = None
    sampled: bool = False
    sums: NDArray[np.float64] | None = None

    @property
    def sampled_by(self) -> Weights | SummedWeights | None:
        """What the edges are sampled by."""
        if self.weight is None or self.sums is None:
            return self.weight
        return SummedWeights(self.weight, self.sums)


def answer_requests(
    requests: Ints, targets: Ints, table: InEdgeTable, strategy: SamplingStrategy, limit: int | None
) -> RequestedEdges:
    """Sample at most ``limit`` in-edges of each request's node; ``targets`` are node numbers of the targets."""
    count = table.csr.shape[1]
    nodes, per_target = requests % count, strategy.scope == "target"
    drawn, place = (nodes, np.arange(len(nodes))) if per_target else np.unique(nodes, return_inverse=True)
    rows = drawn if table.nodes is None else np.searchsorted(table.nodes, drawn)
    if table.sampled:
        sample = first_neighbors(table.csr, rows, limit)
    else:
        options = strategy.seed, strategy.method, table.sampled_by, strategy.replacement
        per_row = targets[requests // count] if per_target else None
        sample = sample_neighbors(table.csr, rows, limit, *options, per_row, drawn)
    bounds = sample.csr.indptr.astype(np.int64)
    counts = np.diff(bounds)[place]
    ranks = np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)
    edges = ranks + np.repeat(bounds[place], counts)
    positions = sample.positions[edges]
    positions = positions if table.positions is None else table.positions[positions]
    return RequestedEdges(np.repeat(requests, counts), sample.csr.indices[edges].astype(np.int64), ranks, positions)


def next_requests(edges: RequestedEdges, count: int) -> Ints:
    """Distinct requests for the sources of edges, for the same targets; ``count`` is the graph's number of nodes."""
    return distinct(edges.requests - edges.requests % count + edges.sources)


def drop_seen(requests: Ints, seen: Ints) -> Ints:
    """Requests that are not among those ``seen``; both are ascending."""
    if not len(seen):
        return requests
    fresh: NDArray[np.bool_] = seen[np.minimum(np.searchsorted(seen, requests), len(seen) - 1)] != requests
    return requests[fresh]


def sample_parts(edges: InEdges, fanout: int | None, strategy: SamplingStrategy) -> Ints:
    """Sample at most ``fanout`` edges per destination by keys, ``None`` for all; places by (destination, rank)."""
    order = np.argsort(edges.positions)
    if not len(order):
        return order
    rows, counts = np.unique(edges.destinations, return_counts=True)
    indptr = np.concatenate(([0], np.cumsum(counts)))
    ordered = edges.take(order)
    csr = Csr(indptr, ordered.sources, (len(rows), int(edges.sources.max()) + 1), ordered.ids)
    sample = sample_neighbors(csr, np.arange(len(rows)), fanout, strategy.seed, strategy.method, ordered.weight)
    sampled: Ints = order[sample.positions]
    return sampled
