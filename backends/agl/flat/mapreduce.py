"""GraphFlat's MapReduce tasks (AGL, section 3.2.1) as functions of arrays: Map, sampling, K reduce rounds, Store.

Map reads a range of edges and sends each to the reducer of its destination. In-edges of a hub go to all reducers
instead, by a random suffix (re-indexing, section 3.2.2), and each reducer samples its part; then the suffix is dropped
(inverted indexing) and the reducer of the hub samples the union. The k smallest keys of a node are the k smallest of
those that its parts kept, so the sample is the same. Sampling with replacement keeps all edges of every part.
"""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from backends.agl.flat.rounds import InEdgeTable, Ints, RequestedEdges, answer_requests, drop_seen, next_requests
from backends.agl.flat.sampling_strategy import SamplingStrategy
from backends.agl.flat.source import Source
from backends.agl.flat.store import TargetNeighbourhoods
from backends.agl.reindexing import sample_parts, suffixes
from backends.kernels.neighbourhood import expansions
from backends.kernels.sampling import distinct
from datasets.csr import Csr
from datasets.randomness import hash_ids


@dataclass(frozen=True)
class FlattenTaskSetup:
    """Inputs common to all tasks: the folder of the source, the sampling, and how edges are assigned to reducers."""

    source: Path
    strategy: SamplingStrategy
    nodes: int
    reducers: int
    hub_threshold: int | None

    def owner(self, nodes: Ints) -> Ints:
        """Reducer of each node."""
        return (hash_ids(0, "reducer", nodes) % np.uint64(self.reducers)).astype(np.int64)

    def reducer(self, destinations: Ints, ids: Ints, degrees: Ints) -> Ints:
        """Reducer of each in-edge: its destination's, or for hubs one by the edge's random suffix."""
        owner = self.owner(destinations)
        if self.hub_threshold is None:
            return owner
        suffix = suffixes(self.strategy.seed, ids, self.reducers)
        return np.where(degrees > self.hub_threshold, (owner + suffix) % self.reducers, owner)


@dataclass(frozen=True, eq=False)
class InEdges:
    """In-edges keyed by destination; ``positions`` index the whole graph's edge order."""

    destinations: Ints
    sources: Ints
    ids: Ints
    positions: Ints
    weight: NDArray[np.float32] | None

    def take(self, rows: Any) -> "InEdges":
        """Return the edges at some rows or where a mask is true."""
        weight = None if self.weight is None else self.weight[rows]
        return InEdges(self.destinations[rows], self.sources[rows], self.ids[rows], self.positions[rows], weight)

    def split(self, reducers: Ints, count: int) -> "list[InEdges]":
        """Split by the reducer of each edge."""
        return [self.take(np.flatnonzero(reducers == number)) for number in range(count)]

    @classmethod
    def concatenate(cls, parts: "tuple[InEdges, ...]") -> "InEdges":
        """Join parts, one after the other."""
        names = ("destinations", "sources", "ids", "positions")
        weight = None if parts[0].weight is None else np.concatenate([part.weight for part in parts])  # type: ignore[misc]
        return cls(*(np.concatenate([getattr(part, name) for part in parts]) for name in names), weight)


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
    """Map: read edges ``first`` to ``last`` and split them by reducer."""
    table = Source.open(setup.source).table
    csr, span = table.csr, slice(first, last)
    positions = np.arange(first, last)
    destinations = np.searchsorted(csr.indptr, positions, side="right") - 1
    edges = InEdges(
        destinations,
        csr.indices[span].astype(np.int64),
        positions if csr.edge_ids is None else csr.edge_ids[span].astype(np.int64),
        positions if table.positions is None else np.asarray(table.positions[span]),
        None if table.weight is None else np.asarray(table.weight[span]),
    )
    degrees = np.asarray(csr.indptr[destinations + 1] - csr.indptr[destinations])
    return edges.split(setup.reducer(destinations, edges.ids, degrees), setup.reducers)


def sample_part(setup: FlattenTaskSetup, *parts: InEdges) -> list[Any]:
    """Sample the in-edges sent to a reducer, split by the owner of the destination; last the number before sampling."""
    edges = InEdges.concatenate(parts)
    sampled = _sample_in_edges(edges, setup.strategy)
    return [*sampled.split(setup.owner(sampled.destinations), setup.reducers), len(edges.ids)]


def merge_parts(setup: FlattenTaskSetup, *parts: InEdges) -> list[InEdgeTable]:
    """Sample the union of the parts' samples of each node: the table from which a reducer answers requests."""
    return [_table(_sample_in_edges(InEdges.concatenate(parts), setup.strategy), setup.nodes)]


def _sample_in_edges(edges: InEdges, strategy: SamplingStrategy) -> InEdges:
    """Sample each destination by the largest fanout, where samples of parts can be merged; else keep all edges."""
    limit = expansions(strategy.fanouts)[0]
    if limit is None or strategy.replacement or strategy.scope == "target":
        return edges
    columns = edges.destinations, edges.sources, edges.ids, edges.weight
    return edges.take(sample_parts(*columns, limit, strategy.seed, strategy.method))


def _table(edges: InEdges, nodes: int) -> InEdgeTable:
    edges = edges.take(np.lexsort((edges.ids, edges.destinations)))
    rows, counts = np.unique(edges.destinations, return_counts=True)
    indptr = np.concatenate(([0], np.cumsum(counts)))
    return InEdgeTable(Csr(indptr, edges.sources, (len(rows), nodes), edges.ids), edges.weight, rows, edges.positions)


def first_requests(setup: FlattenTaskSetup, targets: Ints) -> list[Ints]:
    """Requests of round 1, the in-edges of the targets themselves, split by reducer."""
    requests = np.arange(len(targets)) * setup.nodes + targets
    owner = setup.owner(targets)
    return [requests[owner == number] for number in range(setup.reducers)]


def reduce_round(
    setup: FlattenTaskSetup, depth: int, table: InEdgeTable, state: ReducerState, targets: Ints, *parts: Ints
) -> list[Any]:
    """One round: answer new requests, request the sources of the answers; last the reducer's new state.

    After the last round new requests are only recorded: they are the furthest nodes.
    """
    fresh = drop_seen(distinct(np.concatenate(parts)), state.seen)
    levels = [*state.levels, fresh]
    if depth == setup.strategy.hops:
        return [ReducerState(levels, state.edges)]
    assert table.nodes is not None
    has_edges = np.isin(fresh % setup.nodes, table.nodes)
    limit = expansions(setup.strategy.fanouts)[depth]
    edges = answer_requests(fresh[has_edges], targets, table, setup.strategy, limit)
    requests = next_requests(edges, setup.nodes)
    owner = setup.owner(requests % setup.nodes)
    return [
        *(requests[owner == number] for number in range(setup.reducers)),
        ReducerState(levels, [*state.edges, edges]),
    ]


def split_by_shard(
    setup: FlattenTaskSetup, state: ReducerState, targets: int, records: int
) -> list[TargetNeighbourhoods]:
    """Split a reducer's nodes and edges by the shard of their target; targets are numbered from 0 in each shard."""
    requests = np.concatenate(state.levels)
    distance = np.repeat(np.arange(len(state.levels)), [len(level) for level in state.levels])
    edges, span = RequestedEdges.concatenate(state.edges), records * setup.nodes
    shards = []
    for first in range(0, targets, records):
        shard, low = first // records, first * setup.nodes
        nodes, rows = (np.flatnonzero(keys // span == shard) for keys in (requests, edges.requests))
        count = min(records, targets - first)
        part = edges.take(rows).shifted(low)
        shards.append(TargetNeighbourhoods(count, setup.strategy.hops, requests[nodes] - low, distance[nodes], part))
    return shards


def batches_of_shard(parts: tuple[TargetNeighbourhoods, ...], nodes: int, size: int) -> "list[TargetNeighbourhoods]":
    """Join all reducers' parts of a shard, and split the neighbourhoods into batches of ``size`` targets."""
    requests, distance = (np.concatenate([getattr(part, name) for part in parts]) for name in ("requests", "distance"))
    edges, count = RequestedEdges.concatenate([part.edges for part in parts]), parts[0].count
    batches = []
    for first in range(0, count, size):
        low, high = first * nodes, (first + size) * nodes
        members, rows = (np.flatnonzero((keys >= low) & (keys < high)) for keys in (requests, edges.requests))
        part = edges.take(rows).shifted(low)
        targets = min(size, count - first)
        batches.append(TargetNeighbourhoods(targets, parts[0].hops, requests[members] - low, distance[members], part))
    return batches
