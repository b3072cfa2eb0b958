"""What sampling, searching and merging are, in numpy: what the compiled kernels must equal, and run where they do not.

Nothing here touches more of a graph than the rows it is asked for.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from backends.kernels.samplers import SAMPLERS, Sampler, Weights, check_weights
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
    replace: bool

    @property
    def key(self) -> int:
        """The key of all hashes: one purpose for keys of edges, another for draws."""
        return stream(self.seed, DRAWS if self.replace else KEYS)

    @property
    def chosen(self) -> Sampler:
        """The registered sampler."""
        return SAMPLERS[self.sampler]


@dataclass(frozen=True, eq=False)
class Kept:
    """Kept edges by row and rank: ``starts`` [rows + 1], ``positions`` [nnz], ``ids`` [nnz]; nothing else."""

    starts: Nodes
    positions: Nodes
    ids: NDArray[np.integer]


@dataclass(frozen=True, eq=False)
class Found:
    """A search's result: ``numbers`` [n] are component * columns + node, layer by layer, ``layers`` how many in each.

    ``local`` [nnz] are the sources' places in ``numbers``.
    """

    numbers: Nodes
    layers: list[int]
    kept: Kept
    local: NDArray[np.integer]


def sample(csr: Csr, drawing: Drawing, nodes: Nodes, keys: Any, node_ids: Nodes, fanout: int | None) -> Kept:
    """Keep in-edges of ``nodes``; ``keys`` [nodes] are those of the rows' hashes."""
    rows, positions = in_edges(csr, nodes)
    ids = positions if csr.edge_ids is None else np.asarray(csr.edge_ids[positions])
    weight = np.ones(len(ids))
    if drawing.weight is not None and drawing.chosen.needs_weight:
        weight = np.asarray(drawing.weight[positions])
        check_weights(drawing.sampler, drawing.chosen, weight, ids)
    if drawing.replace:
        by_weight = weight if drawing.chosen.needs_weight else None
        kept, counts = _drawn(rows, ids, keyed(keys, node_ids), by_weight, int(fanout or 0))
    else:
        kept, counts = _smallest(rows, ids, drawing.chosen.keys(keyed(keys[rows], ids), weight), len(nodes), fanout)
    return Kept(np.concatenate(([0], np.cumsum(counts))), positions[kept], ids[kept])


def _smallest(rows: Nodes, ids: Any, keys: Any, count: int, fanout: int | None) -> tuple[Nodes, Nodes]:
    """Candidates with the ``fanout`` smallest keys of each of ``count`` rows, by rank; and how many each row has."""
    order = np.lexsort((ids, keys, rows))
    degrees = np.bincount(rows, minlength=count)
    rank = np.arange(len(rows)) - np.repeat(np.cumsum(degrees) - degrees, degrees)
    if fanout is None:
        return order, degrees
    return order[rank < fanout], np.minimum(degrees, fanout)


def _drawn(rows: Nodes, ids: Any, draw_keys: Any, weight: Weights | None, fanout: int) -> tuple[Nodes, Nodes]:
    """Candidates drawn ``fanout`` times from each row that has any, by draw; and how many each row has."""
    order = np.lexsort((ids, rows))
    degrees = np.bincount(rows, minlength=len(draw_keys))
    counts = np.where(degrees > 0, fanout, 0)
    starts, drawing = np.cumsum(degrees) - degrees, np.repeat(np.arange(len(counts)), counts)
    hashes = keyed(draw_keys[drawing], np.arange(len(drawing)) % fanout)
    if weight is None:
        return order[starts[drawing] + below(hashes, degrees[drawing])], counts
    places = np.empty(len(drawing), dtype=np.int64)
    for row in np.flatnonzero(counts):
        mine = slice(np.searchsorted(drawing, row), np.searchsorted(drawing, row) + fanout)
        sums = np.cumsum(weight[order[starts[row] : starts[row] + degrees[row]]].astype(np.float64))
        found = np.searchsorted(sums, unit_interval(hashes[mine]) * sums[-1], side="left")
        places[mine] = starts[row] + np.minimum(found, degrees[row] - 1)
    return order[places], counts


def in_edges(csr: Csr, nodes: Nodes) -> tuple[Nodes, Nodes]:
    """Place in ``nodes`` and position in ``csr`` of every in-edge of ``nodes``, without touching other rows."""
    starts = csr.indptr[nodes].astype(np.int64)
    degrees = csr.indptr[nodes + 1].astype(np.int64) - starts
    first = np.cumsum(degrees) - degrees
    positions = np.arange(int(degrees.sum())) + np.repeat(starts - first, degrees)
    return np.repeat(np.arange(len(nodes)), degrees), positions


def search(csr: Csr, drawing: Drawing, roots: Nodes, reaches: Reaches, apart: bool) -> Found:
    """Expand ``roots`` hop by hop: a layer's nodes keep as many edges as the last of their ``reaches`` says.

    Entry i says how many of these edges reach a node at most i + 1 layers further on, where nothing reaches it sooner.
    """
    count = csr.shape[1]
    layers = [roots + (np.arange(len(roots)) * count if apart else 0)]
    reached, sources, ranks, hops = layers[0], [], [], []
    for depth, reach in enumerate(reaches):
        own, component = layers[-1] % count, layers[-1] // count
        keys = keyed(drawing.key, roots[component]) if apart else np.full(len(own), drawing.key, dtype=np.uint64)
        hops.append(sample(csr, drawing, own, keys, own, reach[-1]))
        kept_of = np.diff(hops[-1].starts)
        ranks.append(np.arange(len(hops[-1].positions)) - np.repeat(hops[-1].starts[:-1], kept_of))
        sources.append(csr.indices[hops[-1].positions] + np.repeat(component, kept_of) * count)
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
    kept = Kept(starts, positions, ids)
    return Found(numbers, [len(layer) for layer in layers], kept, places_in(numbers, np.concatenate(sources)))


def places_in(numbers: Nodes, wanted: Nodes) -> Nodes:
    """Place in ``numbers``, which differ, of each of ``wanted``."""
    order = np.argsort(numbers)
    return order[np.searchsorted(numbers[order], wanted)]
