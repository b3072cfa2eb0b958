"""Steps of partitioning undirected graphs: clusters, contraction, refinement, streams; equal for any number of threads.

They need the compiled extension.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from backends.kernels.extension import extension, require
from backends.kernels.growing import IN_MEMORY, EdgeFile, Storage
from datasets.csr import Csr

Parts = NDArray[np.int32]
Weights = NDArray[np.int64]
MOST_NODES = np.iinfo(np.int32).max
_EDGES_AT_ONCE, _ROWS_AT_ONCE = 1 << 20, 1 << 20


@dataclass(frozen=True, eq=False)
class UndirectedGraph:
    """Neighbours of each node, each edge in both directions, without self loops and repeated edges.

    starts int64 [nodes + 1], neighbours int32; edge_weights int64, ``None``: 1 each; node_weights int64
    [nodes, constraints], at least 0. directions uint8, of each neighbour: 1 an edge from it, 2 an edge to it, 3 both;
    ``None``: both, or not known.
    """

    starts: Weights
    neighbours: Parts
    node_weights: Weights
    edge_weights: Weights | None = None

    storage: Storage = IN_MEMORY
    directions: NDArray[np.uint8] | None = None

    @property
    def nodes(self) -> int:
        """Number of nodes."""
        return len(self.starts) - 1

    @property
    def _arrays(self) -> tuple[Any, ...]:
        return self.starts, self.neighbours, self.edge_weights, self.node_weights

    @classmethod
    def of(
        cls, csr: Csr, node_weights: Weights, threads: int, storage: Storage = IN_MEMORY, *, directions: bool = False
    ) -> "UndirectedGraph":
        """The undirected graph of a square matrix's edges; raises ValueError for more nodes than int32 counts.

        ``directions`` are kept where they are asked for and the storage has no bound.
        """
        if storage.folder is None:
            return cls._symmetrized(csr, node_weights, threads, directions)

        def pieces() -> Iterator[tuple[NDArray[Any], NDArray[Any]]]:
            starts = range(0, csr.nnz, _EDGES_AT_ONCE)
            return (csr.edges(start, min(start + _EDGES_AT_ONCE, csr.nnz)) for start in starts)

        return cls.from_edges(pieces, node_weights, threads, storage)

    @classmethod
    def _symmetrized(cls, csr: Csr, node_weights: Weights, threads: int, directed: bool) -> "UndirectedGraph":
        """The graph in memory, of a matrix whose rows ascend."""
        _refuse_nodes(csr.shape[0])
        _refuse_ids(csr.indices, csr.indices, csr.shape[0])
        starts, lengths = np.empty(csr.shape[0] + 1, dtype=np.int64), np.empty(csr.shape[0], dtype=np.int64)
        neighbours = np.empty(2 * csr.nnz, dtype=np.int32)
        directions = np.empty(2 * csr.nnz, dtype=np.uint8) if directed else None
        kind = np.int32 if csr.indptr.dtype == csr.indices.dtype == np.int32 else np.int64
        matrix = (np.ascontiguousarray(array, dtype=kind) for array in (csr.indptr, csr.indices))
        total = extension.symmetrize(*matrix, starts, neighbours, directions, lengths, threads)
        neighbours.resize(total, refcheck=False)
        starts = np.concatenate(([0], np.cumsum(lengths)))
        weights = np.ascontiguousarray(node_weights, dtype=np.int64)
        return cls(starts, neighbours, weights, directions=None if directions is None else directions[:total])

    @classmethod
    def from_edges(
        cls,
        pieces: Callable[[], Iterator[tuple[NDArray[Any], NDArray[Any]]]],
        node_weights: Weights,
        threads: int,
        storage: Storage = IN_MEMORY,
    ) -> "UndirectedGraph":
        """The undirected graph of edges that ``pieces()`` yields, each time anew: sources and destinations.

        With a storage in files they are read once and copied to one, which is read for as many rows at a time as fit
        the storage's bound.
        """
        nodes = len(node_weights)
        _refuse_nodes(nodes)
        degrees = np.zeros(nodes, dtype=np.int64)
        copy = None if storage.folder is None else EdgeFile(storage.folder)
        for sources, destinations in pieces():
            _refuse_ids(sources, destinations, nodes)
            piece = _int32(sources), _int32(destinations)
            extension.count_ends(*piece, degrees, threads)
            if copy is not None:
                copy.append(*piece)
        ends = np.concatenate(([0], np.cumsum(degrees)))
        neighbours = storage.growing(np.int32, int(ends[-1]) * 4)
        at_once = max(storage.most // 4, int(degrees.max(initial=0))) if storage.folder else int(ends[-1])
        lengths, first = np.zeros(nodes, dtype=np.int64), 0
        while first < nodes:
            last = max(first + 1, int(np.searchsorted(ends, ends[first] + at_once, side="right")) - 1)
            starts = ends[first : last + 1] - ends[first]
            rows, following = np.empty(int(starts[-1]), dtype=np.int32), starts[:-1].copy()
            for sources, destinations in pieces() if copy is None else copy.pieces():
                extension.scatter_ends(_int32(sources), _int32(destinations), first, last, following, rows, threads)
            total = extension.sort_rows(starts, rows, lengths[first:last], threads)
            neighbours.take_over(rows, total)
            first = last
        starts = np.concatenate(([0], np.cumsum(lengths)))
        weights = np.ascontiguousarray(node_weights, dtype=np.int64)
        return cls(starts, neighbours.whole(), weights, storage=storage)

    def clusters(self, bounds: Weights, key: int, rounds: int, threads: int, parts: Parts | None = None) -> Parts:
        """Clusters, each with at most ``bounds`` [constraints] unless it is one node, by label propagation.

        They are ``numbered``, and stay inside of ``parts`` where these are given.
        """
        labels, loads = np.empty(self.nodes, dtype=np.int32), np.empty_like(self.node_weights)
        extension.cluster(*self._arrays, bounds, parts, rounds, key, labels, loads, threads)
        return numbered(labels)

    def contracted(self, labels: Parts, threads: int) -> "UndirectedGraph":
        """The graph of clusters that are ``numbered``, ``labels`` [nodes]."""
        clusters = int(labels.max(initial=-1)) + 1
        first, capacity = (np.empty(clusters + 1, dtype=np.int64) for _ in range(2))
        loads = np.empty((clusters, self.node_weights.shape[1]), dtype=np.int64)
        members = np.empty(self.nodes, dtype=np.int32)
        extension.clusters_of(*self._arrays, labels, first, members, capacity, loads)
        expected = int(capacity[-1])
        neighbours = self.storage.growing(np.int32, 4 * expected)
        weights = self.storage.growing(np.int64, 8 * expected)
        lengths = np.empty(clusters, dtype=np.int64)
        room = min(expected, max(_ROWS_AT_ONCE, int(np.diff(capacity).max(initial=0))))
        row_neighbours, row_weights = np.empty(room, dtype=np.int32), np.empty(room, dtype=np.int64)
        begin = 0
        while begin < clusters:
            end = max(begin + 1, int(np.searchsorted(capacity, capacity[begin] + room, side="right")) - 1)
            rows = first, members, capacity, begin, end
            total = extension.contract_rows(
                *self._arrays, labels, *rows, lengths[begin:end], row_neighbours, row_weights, threads
            )
            neighbours.append(row_neighbours[:total])
            weights.append(row_weights[:total])
            begin = end
        starts = np.concatenate(([0], np.cumsum(lengths)))
        return UndirectedGraph(starts, neighbours.whole(), loads, weights.whole(), self.storage)

    def refine(self, parts: Parts, count: int, bounds: Weights, threads: int, *, volume: bool = False) -> Weights:
        """Improve ``parts`` in place: into ``bounds`` [constraints] first, then fewer cut edges; returns the loads.

        With ``volume`` then fewer rows that parts need of others; each node counts as one row.
        """
        if parts.dtype != np.int32 or parts.shape != (self.nodes,) or not parts.flags.c_contiguous:
            layout = "" if parts.flags.c_contiguous else ", not contiguous"
            shape = f"{parts.dtype} {list(parts.shape)}{layout}"
            raise ValueError(f"parts is {shape}: contiguous int32 [{self.nodes}] is needed, as it is written over")
        if self.nodes and not 0 <= int(parts.min()) <= int(parts.max()) < count:
            raise ValueError(f"parts reach from {parts.min()} to {parts.max()}: allowed are 0 to {count - 1}")
        loads = np.empty((count, self.node_weights.shape[1]), dtype=np.int64)
        extension.refine(*self._arrays, self.directions, bounds, volume, parts, loads, threads)
        return loads

    def bisected(self, count: int, bounds: Weights, key: int, tries: int, threads: int) -> Parts:
        """Parts of a small graph's nodes, within ``bounds`` [constraints] where that is possible, by bisections.

        Each is the best of ``tries``. Time and memory grow with ``count`` and ``tries`` times the graph.
        """
        parts = np.empty(self.nodes, dtype=np.int32)
        extension.bisect(*self._arrays, bounds, count, key, tries, parts, threads)
        return parts

    def cut_of(self, parts: Parts, threads: int = 1) -> int:
        """The weight of the edges between different parts."""
        return int(extension.cut_of(*self._arrays, parts, threads))

    def heaviest(self, most: int, threads: int) -> "UndirectedGraph":
        """The graph without the edges that are not among the ``most`` heaviest ones of either of their ends."""
        marks = np.empty(len(self.neighbours), dtype=np.uint8)
        extension.mark_heaviest(*self._arrays, most, marks, threads)
        mask = marks.view(bool)
        starts = np.concatenate(([0], np.cumsum(mask)))[self.starts]
        weights = None if self.edge_weights is None else self.edge_weights[mask]
        return UndirectedGraph(starts, self.neighbours[mask], self.node_weights, weights)

    def streamed(self, count: int, bounds: Weights, slope: float, passes: int) -> Parts:
        """Parts of the nodes in the order of their numbers, by LDG (``slope=0``) or Fennel, given ``passes`` times."""
        parts = np.empty(self.nodes, dtype=np.int32)
        loads = np.empty((count, self.node_weights.shape[1]), dtype=np.int64)
        extension.stream(*self._arrays, bounds, slope, passes, parts, loads)
        return parts


def numbered(labels: Parts) -> Parts:
    """The labels, which are node numbers, as numbers from 0 on in the order of their first nodes; in place."""
    extension.renumber(labels)
    return labels


def _refuse_nodes(nodes: int) -> None:
    require("edges are read as an undirected graph")
    if nodes > MOST_NODES:
        raise ValueError(f"the graph has {nodes} nodes: a partition takes at most {MOST_NODES}")


def _refuse_ids(sources: NDArray[Any], destinations: NDArray[Any], nodes: int) -> None:
    """Raise ValueError for an end that is no node: the kernels write by it."""
    for ids in (sources, destinations):
        if len(ids) and not (ids.min() >= 0 and ids.max() < nodes):
            raise ValueError(f"an edge has ends from {ids.min()} to {ids.max()}: allowed are nodes 0 to {nodes - 1}")


def _int32(ids: NDArray[Any]) -> Parts:
    return np.ascontiguousarray(ids, dtype=np.int32)
