"""GraphFlat as Map, K Reduce rounds and Store (section 3.2.1): what each task does, as functions of arrays.

Map reads a range of edges and sends each to the reducer of its destination. In-edges of a hub go to all reducers
instead, by a random suffix (re-indexing); each keeps what a sample of its part would keep; then the suffix is dropped
(inverted indexing) and the destination's reducer samples again. The k smallest keys of a node are the k smallest of
those of its parts, so a hub's sample is the same; with replacement parts keep everything.
"""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from backends.agl.flat.rounds import Edges, Ints, Table, answer, propagate, without
from backends.agl.flat.source import Source
from backends.agl.flat.store import Neighbourhoods
from backends.agl.flat.strategy import Strategy
from backends.agl.reindexing import sample_parts, suffixes
from backends.kernels.neighbourhood import expansions
from backends.kernels.sampling import distinct
from datasets.csr import Csr
from datasets.randomness import hash_ids


@dataclass(frozen=True)
class Plan:
    """What all tasks know: where the source lies, how to sample, and how records are dealt to ``reducers``."""

    source: Path
    strategy: Strategy
    nodes: int
    reducers: int
    hub_threshold: int | None

    def owner(self, nodes: Ints) -> Ints:
        """Reducer of each node."""
        return (hash_ids(0, "reducer", nodes) % np.uint64(self.reducers)).astype(np.int64)

    def reducer(self, destinations: Ints, ids: Ints, degrees: Ints) -> Ints:
        """Reducer of each in-edge: its destination's, or for hubs one by a suffix drawn for the edge."""
        owner = self.owner(destinations)
        if self.hub_threshold is None:
            return owner
        suffix = suffixes(self.strategy.seed, ids, self.reducers)
        return np.where(degrees > self.hub_threshold, (owner + suffix) % self.reducers, owner)


@dataclass(frozen=True, eq=False)
class InEdges:
    """In-edge information, keyed by destination; ``positions`` are places in the whole graph's edge order."""

    destinations: Ints
    sources: Ints
    ids: Ints
    positions: Ints
    weight: NDArray[np.float32] | None

    def taken(self, kept: Any) -> "InEdges":
        """Keep some of them."""
        weight = None if self.weight is None else self.weight[kept]
        return InEdges(self.destinations[kept], self.sources[kept], self.ids[kept], self.positions[kept], weight)

    def dealt(self, reducers: Ints, count: int) -> "list[InEdges]":
        """Split by reducer."""
        return [self.taken(np.flatnonzero(reducers == number)) for number in range(count)]

    @classmethod
    def joined(cls, parts: "tuple[InEdges, ...]") -> "InEdges":
        """Put them one after the other."""
        names = ("destinations", "sources", "ids", "positions")
        weight = None if parts[0].weight is None else np.concatenate([part.weight for part in parts])  # type: ignore[misc]
        return cls(*(np.concatenate([getattr(part, name) for part in parts]) for name in names), weight)


@dataclass(frozen=True, eq=False)
class State:
    """What a reducer remembers: requests it has answered, by round, and the edges that answered them."""

    levels: list[Ints] = field(default_factory=list)
    edges: list[Edges] = field(default_factory=list)

    @property
    def seen(self) -> Ints:
        """All requests answered so far, ascending."""
        return np.sort(np.concatenate([np.zeros(0, dtype=np.int64), *self.levels]))


def map_edges(plan: Plan, first: int, last: int) -> list[InEdges]:
    """Map: read edges ``first`` to ``last`` and deal them to reducers."""
    table = Source.open(plan.source).table
    csr, here = table.csr, slice(first, last)
    places = np.arange(first, last)
    destinations = np.searchsorted(csr.indptr, places, side="right") - 1
    edges = InEdges(
        destinations,
        csr.indices[here].astype(np.int64),
        places if csr.edge_ids is None else csr.edge_ids[here].astype(np.int64),
        places if table.positions is None else np.asarray(table.positions[here]),
        None if table.weight is None else np.asarray(table.weight[here]),
    )
    degrees = np.asarray(csr.indptr[destinations + 1] - csr.indptr[destinations])
    return edges.dealt(plan.reducer(destinations, edges.ids, degrees), plan.reducers)


def sample_part(plan: Plan, *parts: InEdges) -> list[Any]:
    """Sample the in-edges that came to a reducer, and send them to the destinations' own; last how many came."""
    held = InEdges.joined(parts)
    kept = _sampled(held, plan.strategy)
    return [*kept.dealt(plan.owner(kept.destinations), plan.reducers), len(held.ids)]


def merge_parts(plan: Plan, *parts: InEdges) -> list[Table]:
    """Sample what the parts of each node kept: the table from which a reducer answers."""
    return [_table(_sampled(InEdges.joined(parts), plan.strategy), plan.nodes)]


def _sampled(held: InEdges, strategy: Strategy) -> InEdges:
    """Keep of each destination what any request could take, where samples of parts make a sample of the whole."""
    limit = expansions(strategy.fanouts)[0]
    if limit is None or strategy.replacement or strategy.scope == "target":
        return held
    edges = held.destinations, held.sources, held.ids, held.weight
    return held.taken(sample_parts(*edges, limit, strategy.seed, strategy.method))


def _table(held: InEdges, nodes: int) -> Table:
    held = held.taken(np.lexsort((held.ids, held.destinations)))
    rows, counts = np.unique(held.destinations, return_counts=True)
    indptr = np.concatenate(([0], np.cumsum(counts)))
    return Table(Csr(indptr, held.sources, (len(rows), nodes), held.ids), held.weight, rows, held.positions)


def start(plan: Plan, targets: Ints) -> list[Ints]:
    """Ask for the targets themselves: the requests of round 1, by reducer."""
    requests = np.arange(len(targets)) * plan.nodes + targets
    owner = plan.owner(targets)
    return [requests[owner == number] for number in range(plan.reducers)]


def reduce_round(plan: Plan, depth: int, table: Table, state: State, targets: Ints, *parts: Ints) -> list[Any]:
    """One round: answer what was not asked before, ask for the sources; last the reducer's new state.

    After the last round the requests that are left are only remembered: they are the furthest nodes.
    """
    fresh = without(distinct(np.concatenate(parts)), state.seen)
    levels = [*state.levels, fresh]
    if depth == plan.strategy.hops:
        return [State(levels, state.edges)]
    assert table.nodes is not None
    known = np.isin(fresh % plan.nodes, table.nodes)
    edges = answer(fresh[known], targets, table, plan.strategy, expansions(plan.strategy.fanouts)[depth])
    asked = propagate(edges, plan.nodes)
    owner = plan.owner(asked % plan.nodes)
    return [*(asked[owner == number] for number in range(plan.reducers)), State(levels, [*state.edges, edges])]


def split_by_shard(plan: Plan, state: State, targets: int, records: int) -> list[Neighbourhoods]:
    """Send what a reducer found to the shards of its targets, numbered from 0 in each."""
    held = np.concatenate(state.levels)
    distance = np.repeat(np.arange(len(state.levels)), [len(level) for level in state.levels])
    edges, span = Edges.joined(state.edges), records * plan.nodes
    shards = []
    for first in range(0, targets, records):
        low = first * plan.nodes
        mine, ours = (np.flatnonzero(keys // span == first // records) for keys in (held, edges.asked))
        some = edges.taken(ours)
        moved = Edges(some.asked - low, some.sources, some.ranks, some.positions)
        count = min(records, targets - first)
        shards.append(Neighbourhoods(count, plan.strategy.hops, held[mine] - low, distance[mine], moved))
    return shards


def pieces(parts: tuple[Neighbourhoods, ...], nodes: int, size: int) -> "list[Neighbourhoods]":
    """Join what all reducers found of a shard's targets, and cut it into batches of ``size`` targets."""
    held, distance = (np.concatenate([getattr(part, name) for part in parts]) for name in ("held", "distance"))
    edges, count = Edges.joined([part.edges for part in parts]), parts[0].count
    batches = []
    for first in range(0, count, size):
        low, high = first * nodes, (first + size) * nodes
        mine, ours = (np.flatnonzero((keys >= low) & (keys < high)) for keys in (held, edges.asked))
        some = edges.taken(ours)
        moved = Edges(some.asked - low, some.sources, some.ranks, some.positions)
        batches.append(Neighbourhoods(min(size, count - first), parts[0].hops, held[mine] - low, distance[mine], moved))
    return batches
