"""GraphFlat's MapReduce tasks (AGL, section 3.2.1) as functions of arrays: Map, sampling, K reduce rounds, Store.

Map reads a range of edges and sends each to the reducer of its destination, which ranks those of each node once for
all requests (``topk``, samplers of one's own). In-edges of a hub go to all reducers, by a random suffix (re-indexing,
section 3.2.2), and each reducer samples its part; then the suffix is dropped (inverted indexing) and the reducer of the
hub samples the union. The k smallest keys of a node are the k smallest of those that its parts kept, so the sample is
the same.

Where a sample costs its fanout (``uniform``, ``weighted``), each request draws another one (with replacement, per
target), or all in-edges are read, nothing is sent: requests are spread over the reducers by target and node, so that a
hub is no reducer's own, and answered from the mapped edges.
"""

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from backends.agl.flat.rounds import (
    InEdges,
    InEdgeTable,
    Ints,
    RequestedEdges,
    answer_requests,
    drop_seen,
    next_requests,
    sample_parts,
)
from backends.agl.flat.sampling_strategy import SamplingStrategy
from backends.agl.flat.shards import TargetNeighbourhoods
from backends.agl.flat.source import Source
from backends.kernels.neighbourhood import expansions
from backends.kernels.samplers import SAMPLERS
from backends.kernels.sampling import distinct
from backends.places import mirrored
from datasets.csr import Csr
from datasets.randomness import hash_ids


@dataclass(frozen=True)
class FlattenTaskSetup:
    """Inputs common to all tasks: the source, a folder or URL, the sampling, and how edges are assigned to reducers.

    ``edges`` are those that pass the filter; ``identity`` is that of the job, which its shards name.
    """

    source: Path | str
    strategy: SamplingStrategy
    nodes: int
    edges: int
    reducers: int
    hub_threshold: int | None
    identity: str = ""

    def open(self) -> Source:
        """The source, of which a machine has one copy where it lies on another file system."""
        return Source.open(mirrored(str(self.source)))

    @property
    def limit(self) -> int | None:
        """In-edges of each node that are ranked once for all requests; ``None`` where each request samples itself."""
        strategy = self.strategy
        once = not (strategy.replacement or strategy.scope == "target" or SAMPLERS[strategy.method].by_place)
        return expansions(strategy.fanouts)[0] if once else None

    @property
    def draws_per_request(self) -> bool:
        """Whether requests are answered from the mapped edges, without Map."""
        return self.limit is None

    def owner(self, keys: Ints) -> Ints:
        """Reducer of each node, or of each request."""
        return (hash_ids(0, "reducer", keys) % np.uint64(self.reducers)).astype(np.int64)

    def split_requests(self, requests: Ints) -> list[Ints]:
        """Split requests by the reducer that answers them: their node's, or one of their own."""
        keys = requests if self.draws_per_request else requests % self.nodes
        return [requests[places] for places in _places_by(self.owner(keys), self.reducers)]

    def reducer(self, destinations: Ints, ids: Ints, degrees: Ints) -> Ints:
        """Reducer of each in-edge: its destination's, or for hubs one by the edge's random suffix."""
        owner = self.owner(destinations)
        if not self.hub_threshold:
            return owner
        suffix = (hash_ids(self.strategy.seed, "suffix", ids) % np.uint64(self.reducers)).astype(np.int64)
        return np.where(degrees > self.hub_threshold, (owner + suffix) % self.reducers, owner)


@dataclass(frozen=True, eq=False)
class ReducerState:
    """State of a reducer between rounds: the requests that were new in each round, and the edges that answered them."""

    levels: list[Ints] = field(default_factory=list)
    edges: list[RequestedEdges] = field(default_factory=list)

    @property
    def seen(self) -> Ints:
        """All requests so far, ascending."""
        return np.sort(np.concatenate([np.zeros(0, dtype=np.int64), *self.levels]))


def map_edges(setup: FlattenTaskSetup, first: int, last: int) -> list[InEdges]:
    """Map: read edges ``first`` to ``last``, and split them by reducer."""
    table = setup.open().table
    csr, places = table.csr, np.arange(first, last)
    sources, destinations = csr.edges(first, last)
    edges = InEdges(
        destinations.astype(np.int64),
        sources.astype(np.int64),
        places if csr.edge_ids is None else csr.edge_ids[places].astype(np.int64),
        places if table.positions is None else np.asarray(table.positions[places]),
        None if table.weight is None else np.asarray(table.weight[places]),
    )
    degrees = np.asarray(csr.indptr[destinations + 1] - csr.indptr[destinations])
    return _split(edges, setup.reducer(destinations, edges.ids, degrees), setup.reducers)


def sample_part(setup: FlattenTaskSetup, *parts: InEdges) -> list[Any]:
    """Sample the in-edges sent to a reducer, split by the owner of the destination; last the number before sampling."""
    edges = InEdges.concatenate(parts)
    sampled = edges.take(sample_parts(edges, setup.limit, setup.strategy))
    return [*_split(sampled, setup.owner(sampled.destinations), setup.reducers), len(edges.ids)]


def merge_parts(setup: FlattenTaskSetup, *parts: InEdges) -> list[InEdgeTable]:
    """Sample the union of the parts' samples of each node: the table from which a reducer answers requests."""
    edges = InEdges.concatenate(parts)
    edges = edges.take(sample_parts(edges, setup.limit, setup.strategy))
    rows, counts = np.unique(edges.destinations, return_counts=True)
    csr = Csr(np.concatenate(([0], np.cumsum(counts))), edges.sources, (len(rows), setup.nodes), edges.ids)
    return [InEdgeTable(csr, edges.weight, rows, edges.positions, sampled=True)]


def reduce_round(
    setup: FlattenTaskSetup, depth: int, table: InEdgeTable | None, state: ReducerState, targets: Ints, *parts: Ints
) -> list[Any]:
    """One round: answer new requests, request the sources of the answers; last the reducer's new state.

    Without ``table`` the mapped edges answer. After the last round new requests are only recorded: they are the
    furthest nodes.
    """
    fresh = drop_seen(distinct(np.concatenate(parts)), state.seen)
    levels = [*state.levels, fresh]
    if depth == setup.strategy.hops:
        return [ReducerState(levels, state.edges)]
    table = setup.open().table if table is None else table
    answered = fresh if table.nodes is None else fresh[np.isin(fresh % setup.nodes, table.nodes)]
    edges = answer_requests(answered, targets, table, setup.strategy, expansions(setup.strategy.fanouts)[depth])
    requests = next_requests(edges, setup.nodes)
    return [*setup.split_requests(requests), ReducerState(levels, [*state.edges, edges])]


def edges_answered(setup: FlattenTaskSetup, state: ReducerState) -> list[int]:
    """How many edges the reducer's answers have."""
    return [sum(len(edges.requests) for edges in state.edges)]


def split_by_shard(
    setup: FlattenTaskSetup, state: ReducerState, targets: int, records: int
) -> list[TargetNeighbourhoods]:
    """Split a reducer's nodes and edges by the shard of their target; targets are numbered from 0 in each shard."""
    whole = TargetNeighbourhoods.of_levels(targets, state.levels, state.edges)
    return _split_targets(whole, setup.nodes, np.append(np.arange(0, targets, records), targets))


def batches_of_shard(parts: tuple[TargetNeighbourhoods, ...], nodes: int, bounds: Ints) -> "list[TargetNeighbourhoods]":
    """Join all reducers' parts of a shard, and split the neighbourhoods into batches of targets between ``bounds``."""
    requests, distance = (np.concatenate([getattr(part, name) for part in parts]) for name in ("requests", "distance"))
    edges = RequestedEdges.concatenate([part.edges for part in parts])
    return _split_targets(replace(parts[0], requests=requests, distance=distance, edges=edges), nodes, bounds)


def _split_targets(whole: TargetNeighbourhoods, nodes: int, bounds: Ints) -> list[TargetNeighbourhoods]:
    """Split neighbourhoods into those of the targets between ``bounds``, each numbered from 0, in one pass."""
    counts, firsts = np.diff(bounds).tolist(), bounds[:-1] * nodes
    pieces = (
        _places_by(np.searchsorted(firsts, keys, side="right") - 1, len(counts))
        for keys in (whole.requests, whole.edges.requests)
    )
    split = []
    for count, first, members, rows in zip(counts, firsts.tolist(), *pieces, strict=True):
        edges = whole.edges.take(rows)
        edges = replace(edges, requests=edges.requests - first)
        requests = whole.requests[members] - first
        split.append(TargetNeighbourhoods(count, whole.hops, requests, whole.distance[members], edges))
    return split


def _split(edges: InEdges, reducers: Ints, count: int) -> list[InEdges]:
    """Split edges by the reducer of each."""
    return [edges.take(places) for places in _places_by(reducers, count)]


def _places_by(keys: Ints, count: int) -> list[Ints]:
    """The places of each key from 0 to ``count - 1``, ascending."""
    order = np.argsort(keys, kind="stable")
    return np.split(order, np.searchsorted(keys[order], np.arange(1, count)))
