"""GraphFlat's rounds as functions of arrays, the same in every engine: who is asked, what answers, what comes of it.

A request is a pair (target, node), encoded as ``target * nodes + node`` with targets numbered from 0: the target's
neighbourhood needs the in-edges of the node. Round 1 asks the targets themselves; the sources of the edges that answer
are asked in the next round. Asking outwards from the targets yields what the paper's merging towards them yields
(section 3.2.1), and computes nothing for nodes that no target needs.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from backends.agl.flat.strategy import Strategy
from backends.kernels import sample_neighbors
from backends.kernels.sampling import distinct
from datasets.csr import Csr

Ints = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Edges:
    """Edges of neighbourhoods: edge i belongs to the request ``asked[i]``, whose node is its destination.

    ``sources`` are numbers of the whole graph, ``positions`` places in its edge order, ``ranks`` places in the
    destination's order of preference.
    """

    asked: Ints
    sources: Ints
    ranks: Ints
    positions: Ints

    @classmethod
    def joined(cls, parts: "list[Edges]") -> "Edges":
        """Put edges one after the other."""
        names = ("asked", "sources", "ranks", "positions")
        return cls(*(np.concatenate([getattr(part, name) for part in parts]) for name in names))

    def taken(self, kept: NDArray[np.bool_] | Ints) -> "Edges":
        """Keep some of the edges."""
        return Edges(self.asked[kept], self.sources[kept], self.ranks[kept], self.positions[kept])


@dataclass(frozen=True, eq=False)
class Table:
    """In-edges of some nodes: row i of ``csr`` is node ``nodes[i]`` (ascending; ``None``: all), columns are all nodes.

    ``weight`` [nnz] is the column that sampling goes by, ``positions`` [nnz] are places in the whole graph's edge
    order (``None``: as they stand).
    """

    csr: Csr
    weight: NDArray[np.floating] | None = None
    nodes: Ints | None = None
    positions: Ints | None = None


def answer(requests: Ints, targets: Ints, table: Table, strategy: Strategy, limit: int | None) -> Edges:
    """Give every request the sampled in-edges of its node, at most ``limit``; ``targets`` are the targets' numbers."""
    count = table.csr.shape[1]
    asked = requests % count
    own, place = (asked, np.arange(len(asked))) if strategy.scope == "target" else np.unique(asked, return_inverse=True)
    sample = sample_neighbors(
        table.csr,
        own if table.nodes is None else np.searchsorted(table.nodes, own),
        limit,
        strategy.seed,
        strategy.method,
        table.weight,
        strategy.replacement,
        targets[requests // count] if strategy.scope == "target" else None,
        own,
    )
    bounds = sample.csr.indptr.astype(np.int64)
    counts = np.diff(bounds)[place]
    ranks = np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)
    picked = ranks + np.repeat(bounds[place], counts)
    positions = sample.positions[picked]
    known = positions if table.positions is None else table.positions[positions]
    return Edges(np.repeat(requests, counts), sample.csr.indices[picked].astype(np.int64), ranks, known)


def propagate(edges: Edges, count: int) -> Ints:
    """Ask for the source of every edge on behalf of its target, once; ``count`` is the graph's nodes."""
    return distinct(edges.asked - edges.asked % count + edges.sources)


def without(requests: Ints, seen: Ints) -> Ints:
    """Drop what was asked before; both ascending."""
    if not len(seen):
        return requests
    fresh: NDArray[np.bool_] = seen[np.minimum(np.searchsorted(seen, requests), len(seen) - 1)] != requests
    return requests[fresh]
