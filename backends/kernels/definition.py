"""Definition of sampling and k-hop search in numpy; native code equals it bit for bit, and it runs where there is none.

Only the requested rows of a graph are read.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from backends.kernels.samplers import SAMPLERS, EdgeSampler, Weights, check_weights
from datasets.csr import Csr
from datasets.randomness import below, keyed, stream, unit_interval

Nodes = NDArray[np.int64]
Reaches = list[list[int | None]]
KEYS, DRAWS = "neighbour keys", "neighbour draws"


@dataclass(frozen=True, eq=False)
class Drawing:
    """How edges are chosen: the registered sampler, the seed, weights [nnz] and whether with replacement."""

    sampler: str
    seed: int
    weight: Weights | None
    replacement: bool

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
    rows, positions = in_edges(csr, nodes)
    ids = positions if csr.edge_ids is None else np.asarray(csr.edge_ids[positions])
    weight = np.ones(len(ids))
    if drawing.weight is not None and drawing.registered.needs_weight:
        weight = np.asarray(drawing.weight[positions])
        check_weights(drawing.sampler, drawing.registered, weight, ids)
    if drawing.replacement:
        by_weight = weight if drawing.registered.needs_weight else None
        chosen, counts = _drawn(rows, ids, keyed(keys, node_ids), by_weight, int(fanout or 0))
    else:
        chosen, counts = _smallest(
            rows, ids, drawing.registered.keys(keyed(keys[rows], ids), weight), len(nodes), fanout
        )
    return KeptEdges(np.concatenate(([0], np.cumsum(counts))), positions[chosen], ids[chosen])


def _smallest(rows: Nodes, ids: Any, keys: Any, count: int, fanout: int | None) -> tuple[Nodes, Nodes]:
    """Return the candidates with the ``fanout`` smallest keys of each of ``count`` rows, by rank; and counts by row."""
    order = np.lexsort((ids, keys, rows))
    degrees = np.bincount(rows, minlength=count)
    rank = np.arange(len(rows)) - np.repeat(np.cumsum(degrees) - degrees, degrees)
    if fanout is None:
        return order, degrees
    return order[rank < fanout], np.minimum(degrees, fanout)


def _drawn(rows: Nodes, ids: Any, draw_keys: Any, weight: Weights | None, fanout: int) -> tuple[Nodes, Nodes]:
    """Draw ``fanout`` candidates with replacement from each row that has any; also return the counts by row."""
    order = np.lexsort((ids, rows))
    degrees = np.bincount(rows, minlength=len(draw_keys))
    counts = np.where(degrees > 0, fanout, 0)
    starts, drawing = np.cumsum(degrees) - degrees, np.repeat(np.arange(len(counts)), counts)
    hashes = keyed(draw_keys[drawing], np.arange(len(drawing)) % fanout)
    if weight is None:
        return order[starts[drawing] + below(hashes, degrees[drawing])], counts
    places = np.empty(len(drawing), dtype=np.int64)
    for row in np.flatnonzero(counts):
        draws = slice(np.searchsorted(drawing, row), np.searchsorted(drawing, row) + fanout)
        sums = np.cumsum(weight[order[starts[row] : starts[row] + degrees[row]]].astype(np.float64))
        drawn = np.searchsorted(sums, unit_interval(hashes[draws]) * sums[-1], side="left")
        places[draws] = starts[row] + np.minimum(drawn, degrees[row] - 1)
    return order[places], counts


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
