"""Definition of sampling and k-hop search in numpy; native code equals it bit for bit, and it runs where there is none.

Only the requested rows of a graph are read.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from backends.kernels.samplers import SAMPLERS, EdgeSampler, Weights, check_weights, keys_of
from datasets.csr import Csr, row_ranges
from datasets.randomness import below, keyed, stream, unit_interval

Nodes = NDArray[np.int64]
Reaches = list[list[int | None]]
KEYS, DRAWS = "neighbour keys", "neighbour draws"
FEW, REJECTED = 64, 64  # of weighted sampling
_EDGES_AT_ONCE = 1 << 22  # candidates that are listed at once, unless a row has more


@dataclass(frozen=True, eq=False)
class Drawing:
    """How edges are chosen: the registered sampler, the seed, weights [nnz] and whether with replacement.

    ``sums`` [nnz] are those of ``SummedWeights``; without them they are computed of the rows that are sampled.
    """

    sampler: str
    seed: int
    weight: Weights | None
    replacement: bool
    sums: NDArray[np.float64] | None = None

    @property
    def key(self) -> int:
        """The key of all hashes, different for keys of edges and for draws with replacement."""
        return stream(self.seed, DRAWS if self.replacement else KEYS)

    @property
    def registered(self) -> EdgeSampler:
        """The registered sampler."""
        return SAMPLERS[self.sampler]


@dataclass(frozen=True, eq=False)
class KeptEdges:
    """Sampled edges by row and rank: ``starts`` [rows + 1], ``positions`` [nnz], ``ids`` [nnz]."""

    starts: Nodes
    positions: Nodes
    ids: NDArray[np.integer]


@dataclass(frozen=True, eq=False)
class SearchResult:
    """Nodes and edges of a search: ``numbers`` [n] are component * columns + node, ``layers`` the nodes per layer.

    Row i of ``edges`` holds the in-edges of ``numbers[i]``; ``local`` [nnz] are their sources' places in ``numbers``.
    """

    numbers: Nodes
    layers: list[int]
    edges: KeptEdges
    local: NDArray[np.integer]


def sample(csr: Csr, drawing: Drawing, nodes: Nodes, keys: Any, node_ids: Nodes, fanout: int | None) -> KeptEdges:
    """Sample in-edges of ``nodes``; ``keys`` [nodes] are the hash keys of the rows."""
    degrees = np.asarray(csr.indptr[nodes + 1], dtype=np.int64) - csr.indptr[nodes]
    ranges = row_ranges(np.concatenate(([0], np.cumsum(degrees))), _EDGES_AT_ONCE)
    parts = [_sample(csr, drawing, nodes[a:b], keys[a:b], node_ids[a:b], fanout) for a, b in ranges or [(0, 0)]]
    counts, positions, ids = (np.concatenate(arrays) for arrays in zip(*parts, strict=True))
    return KeptEdges(np.concatenate(([0], np.cumsum(counts))), positions, ids)


def _sample(
    csr: Csr, drawing: Drawing, nodes: Nodes, keys: Any, node_ids: Nodes, fanout: int | None
) -> tuple[Nodes, Nodes, NDArray[np.integer]]:
    """Counts [nodes], positions and ids of the sampled in-edges; all of the nodes' in-edges are listed."""
    rows, positions = in_edges(csr, nodes)
    ids = positions if csr.edge_ids is None else np.asarray(csr.edge_ids[positions])
    weight = np.ones(len(ids))
    if drawing.weight is not None and drawing.registered.needs_weight:
        weight = np.asarray(drawing.weight[positions])
        check_weights(drawing.sampler, drawing.registered, weight, ids)
    sampler, draw_keys = drawing.registered, keyed(keys, node_ids)
    degrees = np.bincount(rows, minlength=len(nodes))
    counts = degrees if fanout is None else np.minimum(degrees, fanout)
    if drawing.replacement:
        counts = np.where(degrees > 0, int(fanout or 0), 0)
        chosen = _drawn(degrees, counts, draw_keys, weight if sampler.needs_weight else None)
    elif sampler.keys is None:
        chosen = _shuffled(degrees, counts, draw_keys)
    else:
        edge_keys = keys_of(drawing.sampler, sampler, keyed(keys[rows], ids), weight)
        if sampler.by_place:
            chosen = _by_weight(degrees, counts, draw_keys, edge_keys, weight)
        else:
            chosen = np.lexsort((edge_keys, rows))[_places(degrees) < np.repeat(counts, degrees)]
    return counts, positions[chosen], ids[chosen]


def _places(degrees: Nodes) -> Nodes:
    """Place of each of the rows' candidates in its row."""
    return np.arange(int(degrees.sum())) - np.repeat(np.cumsum(degrees) - degrees, degrees)


def _shuffled(degrees: Nodes, counts: Nodes, draw_keys: Any) -> Nodes:
    """Shuffle each row's candidates (Fisher and Yates) and take its first ``counts``.

    Swap r exchanges the candidates at r and at ``r + below(keyed(key, r), degree - r)``, so that the first elements do
    not depend on how many are taken.
    """
    candidates, starts = np.arange(int(degrees.sum())), np.cumsum(degrees) - degrees
    rows = np.arange(len(counts))
    for swap in range(int(counts.max(initial=0))):
        rows = rows[counts[rows] > swap]  # not of all rows: a hub has many swaps
        first = starts[rows] + swap
        other = first + below(keyed(draw_keys[rows], np.full(len(rows), swap)), degrees[rows] - swap)
        candidates[first], candidates[other] = candidates[other], candidates[first]
    return candidates[_places(degrees) < np.repeat(counts, degrees)]


def _by_weight(degrees: Nodes, counts: Nodes, draw_keys: Any, edge_keys: Any, weight: Weights) -> Nodes:
    """Draw ``counts`` candidates of each row by weight, one after the other, each from those that are left.

    A draw is a place by the sums of the weights; one that was drawn before is rejected. After ``REJECTED`` rejections
    in a row, and in rows of at most ``FEW``, the candidates left are ordered by keys (Efraimidis and Spirakis 2006),
    which gives the same distribution.
    """
    chosen, starts = [np.zeros(0, dtype=np.int64)], np.cumsum(degrees) - degrees
    for row in np.flatnonzero(counts):
        first, degree, count = int(starts[row]), int(degrees[row]), int(counts[row])
        sums = np.cumsum(weight[first : first + degree].astype(np.float64))
        drawn: dict[int, None] = {}
        draw = rejected = 0
        while degree > FEW and len(drawn) < count and rejected < REJECTED:
            share = unit_interval(keyed(draw_keys[row], np.array([draw])))[0]
            place = min(int(np.searchsorted(sums, share * sums[-1], side="left")), degree - 1)
            draw, rejected = draw + 1, rejected + 1 if place in drawn else 0
            drawn[place] = None
        left = np.setdiff1d(np.arange(degree), list(drawn))
        by_key = left[np.argsort(edge_keys[first + left], kind="stable")]
        chosen.append(first + np.concatenate((list(drawn), by_key)).astype(np.int64)[:count])
    return np.concatenate(chosen)


def _drawn(degrees: Nodes, counts: Nodes, draw_keys: Any, weight: Weights | None) -> Nodes:
    """Draw ``counts`` candidates of each row with replacement."""
    starts, drawing = np.cumsum(degrees) - degrees, np.repeat(np.arange(len(counts)), counts)
    hashes = keyed(draw_keys[drawing], _places(counts))
    if weight is None:
        return starts[drawing] + below(hashes, degrees[drawing])
    drawn, ends = np.empty(len(drawing), dtype=np.int64), np.cumsum(counts)
    for row in np.flatnonzero(counts):
        draws = slice(ends[row] - counts[row], ends[row])
        sums = np.cumsum(weight[starts[row] : starts[row] + degrees[row]].astype(np.float64))
        places = np.searchsorted(sums, unit_interval(hashes[draws]) * sums[-1], side="left")
        drawn[draws] = starts[row] + np.minimum(places, degrees[row] - 1)
    return drawn


def in_edges(csr: Csr, nodes: Nodes) -> tuple[Nodes, Nodes]:
    """Place in ``nodes`` and position in ``csr`` of every in-edge of ``nodes``, without touching other rows."""
    starts = csr.indptr[nodes].astype(np.int64)
    degrees = csr.indptr[nodes + 1].astype(np.int64) - starts
    first = np.cumsum(degrees) - degrees
    positions = np.arange(int(degrees.sum())) + np.repeat(starts - first, degrees)
    return np.repeat(np.arange(len(nodes)), degrees), positions


def search(csr: Csr, drawing: Drawing, roots: Nodes, reaches: Reaches, apart: bool) -> SearchResult:
    """Expand ``roots``, which are layer 0, hop by hop; ``reaches[j]`` applies to the nodes of layer j.

    Such a node keeps its first ``reaches[j][-1]`` in-edges, by rank. The sources of its first ``reaches[j][i]`` ones
    join layer j + i + 1, unless an earlier layer has them already. With ``apart`` every root has its own component.
    """
    count = csr.shape[1]
    layers = [roots + (np.arange(len(roots)) * count if apart else 0)]
    reached, sources, ranks, hops = layers[0], [], [], []
    for depth, reach in enumerate(reaches):
        nodes, component = layers[-1] % count, layers[-1] // count
        keys = keyed(drawing.key, roots[component]) if apart else np.full(len(nodes), drawing.key, dtype=np.uint64)
        hops.append(sample(csr, drawing, nodes, keys, nodes, reach[-1]))
        counts = np.diff(hops[-1].starts)
        ranks.append(np.arange(len(hops[-1].positions)) - np.repeat(hops[-1].starts[:-1], counts))
        sources.append(csr.indices[hops[-1].positions] + np.repeat(component, counts) * count)
        limits = [earlier[depth - at] for at, earlier in enumerate(reaches[: depth + 1])]
        near = [
            source[rank < (np.inf if limit is None else limit)]
            for source, rank, limit in zip(sources, ranks, limits, strict=True)
        ]
        layers.append(np.setdiff1d(np.concatenate(near), reached))
        reached = np.union1d(reached, layers[-1])
    numbers = np.concatenate(layers)
    degrees = [*(np.diff(hop.starts) for hop in hops), np.zeros(len(layers[-1]), dtype=np.int64)]
    starts = np.concatenate(([0], *degrees)).cumsum()
    positions, ids = (np.concatenate([getattr(hop, name) for hop in hops]) for name in ("positions", "ids"))
    edges = KeptEdges(starts, positions, ids)
    return SearchResult(numbers, [len(layer) for layer in layers], edges, places_in(numbers, np.concatenate(sources)))


def places_in(numbers: Nodes, values: Nodes) -> Nodes:
    """Place of each of ``values`` in the distinct ``numbers``."""
    order = np.argsort(numbers)
    return order[np.searchsorted(numbers[order], values)]
