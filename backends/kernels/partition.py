"""Steps of partitioning undirected graphs: clusters, contraction, refinement, streams; equal for any number of threads.

They need the compiled extension.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from backends.kernels.extension import extension
from backends.kernels.operand import operand
from backends.kernels.transpose import transposed
from datasets.csr import Csr

Parts = NDArray[np.int32]
Weights = NDArray[np.int64]
MOST_NODES = np.iinfo(np.int32).max


@dataclass(frozen=True, eq=False)
class UndirectedGraph:
    """Neighbours of each node, each edge in both directions, without self loops and repeated edges.

    starts int64 [nodes + 1], neighbours int32; edge_weights int64, ``None``: 1 each; node_weights int64
    [nodes, constraints], at least 0.
    """

    starts: Weights
    neighbours: Parts
    node_weights: Weights
    edge_weights: Weights | None = None

    @property
    def nodes(self) -> int:
        """Number of nodes."""
        return len(self.starts) - 1

    @property
    def _arrays(self) -> tuple[Any, ...]:
        return self.starts, self.neighbours, self.edge_weights, self.node_weights

    @classmethod
    def of(cls, csr: Csr, node_weights: Weights, threads: int) -> "UndirectedGraph":
        """The undirected graph of a square matrix's edges; raises ValueError for more nodes than int32 counts."""
        if csr.shape[0] > MOST_NODES:
            raise ValueError(f"the graph has {csr.shape[0]} nodes: a partition takes at most {MOST_NODES}")
        rows = operand(csr).forward
        back = transposed(rows.indptr, rows.indices, csr.shape)  # not the one that is kept: a timed call builds its own
        starts, neighbours = extension.symmetric(rows.indptr, rows.indices, back.indptr, back.indices, threads)
        return cls(starts, neighbours, np.ascontiguousarray(node_weights, dtype=np.int64))

    def clusters(self, bounds: Weights, key: int, rounds: int, threads: int, parts: Parts | None = None) -> Parts:
        """Labels of clusters, each with at most ``bounds`` [constraints] unless it is one node, by label propagation.

        They stay inside of ``parts`` where these are given.
        """
        labels, loads = np.empty(self.nodes, dtype=np.int32), np.empty_like(self.node_weights)
        extension.cluster(*self._arrays, bounds, parts, rounds, key, labels, loads, threads)
        return labels

    def contracted(self, labels: Parts, threads: int) -> "UndirectedGraph":
        """The graph of the clusters, in the order of their first nodes; ``labels`` become their numbers."""
        starts, neighbours, weights, loads = extension.contract(*self._arrays, labels, threads)
        return UndirectedGraph(starts, neighbours, loads.reshape(-1, self.node_weights.shape[1]), weights)

    def refine(
        self, parts: Parts, count: int, bounds: Weights, key: int, rounds: int, threads: int, climbs: int = 0
    ) -> Weights:
        """Improve ``parts`` in place: into ``bounds`` [constraints] first, then fewer cut edges; returns the loads.

        ``rounds`` are over all nodes, by their own gains; ``climbs`` also make moves that raise the cut for a while.
        """
        loads = np.empty((count, self.node_weights.shape[1]), dtype=np.int64)
        extension.refine(*self._arrays, bounds, rounds, climbs, key, parts, loads, threads)
        return loads

    def streamed(self, count: int, bounds: Weights, slope: float, passes: int) -> Parts:
        """Parts of the nodes in the order of their numbers, by LDG (``slope=0``) or Fennel, given ``passes`` times."""
        parts = np.empty(self.nodes, dtype=np.int32)
        loads = np.empty((count, self.node_weights.shape[1]), dtype=np.int64)
        extension.stream(*self._arrays, bounds, slope, passes, parts, loads)
        return parts
