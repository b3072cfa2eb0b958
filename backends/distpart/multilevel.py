"""Multilevel partitioning: contract clusters, cut the small graph, refine on the way back (Karypis and Kumar 1998).

Clusters come from label propagation with a bound on their weight (Meyerhenke, Sanders and Schulz 2014). Further cycles
contract inside of the parts there are, and refine again (Walshaw 2004).
"""

from dataclasses import dataclass

import numpy as np

from backends.contract import Clock
from backends.distpart.initial import initial_parts
from backends.kernels.partition import Parts, UndirectedGraph, Weights, numbered
from datasets.randomness import stream

COARSEST = 1024  # nodes of the smallest graph, more with many parts
NODES_PER_PART = 16
CLUSTER_ROUNDS = 2
SMALL_ENOUGH = 1.25  # times as many nodes as that: contracting them once more costs more than cutting them
LEAST_SHRINKAGE = 0.95


@dataclass(frozen=True)
class Multilevel:
    """The options of all levels: ``count`` parts of at most ``bounds`` [constraints], where that is possible."""

    count: int
    bounds: Weights
    seed: int
    threads: int
    cycles: int
    volume: bool = False  # whether rows that parts need of others count, not cut edges

    def assign(self, graph: UndirectedGraph, clock: Clock) -> Parts:
        """Assign nodes to parts; phases ``coarsen``, ``cut``, ``refine``."""
        parts: Parts | None = None
        labels: list[Parts] = []
        for cycle in range(self.cycles):
            with clock.phase("coarsen"):
                largest = labels[0] if labels else None
                graphs, labels = self._coarsened(graph, parts, cycle, largest)
            with clock.phase("cut"):
                if parts is None:
                    parts = initial_parts(graphs[-1], self.count, self.bounds, self.seed, self.threads)
                else:
                    for clusters in labels:
                        parts = _of_clusters(parts, clusters)
            with clock.phase("refine"):
                parts = self._refined(graphs, labels, parts)
        assert parts is not None
        return parts

    def heaviest_cluster(self, smallest: int) -> Weights:
        """Loads of a cluster, so small that those of a graph of ``smallest`` nodes can be spread over the parts."""
        # Python's integers: bounds of all parts together may exceed 64 bits
        return np.array([max(int(bound) * self.count // smallest, 1) for bound in self.bounds], dtype=np.int64)

    def _coarsened(
        self, graph: UndirectedGraph, parts: Parts | None, cycle: int, known: Parts | None
    ) -> tuple[list[UndirectedGraph], list[Parts]]:
        """The graph and its contractions, and each graph's cluster of every node.

        ``known`` are clusters of the largest graph, of the cycle before: cut at the bounds of the parts they are used
        again, as looking for clusters there takes longer than all else.
        """
        graphs, labels, smallest = [graph], list[Parts](), max(COARSEST, NODES_PER_PART * self.count)
        heaviest = self.heaviest_cluster(smallest)
        while graphs[-1].nodes > SMALL_ENOUGH * smallest:
            fine, key = graphs[-1], stream(self.seed, f"cluster {cycle} {len(labels)}")
            if known is not None and parts is not None and not labels:
                clusters = _cut_by(known, parts)
            else:
                clusters = fine.clusters(heaviest, key, CLUSTER_ROUNDS, self.threads, parts)
            if int(clusters.max()) + 1 > LEAST_SHRINKAGE * fine.nodes:
                break
            coarse = fine.contracted(clusters, self.threads)
            graphs.append(coarse)
            labels.append(clusters)
            parts = None if parts is None else _of_clusters(parts, clusters)
        return graphs, labels

    def _refined(self, graphs: list[UndirectedGraph], labels: list[Parts], parts: Parts) -> Parts:
        """Carry the parts of the smallest graph to the largest, refined on each."""
        for level in range(len(graphs) - 1, -1, -1):
            parts = parts[labels[level]] if level < len(labels) else parts
            volume = self.volume and level == 0  # clusters hide which nodes have neighbours in other parts
            graphs[level].refine(parts, self.count, self.bounds, self.threads, volume=volume)
        return parts


def _cut_by(labels: Parts, parts: Parts) -> Parts:
    """Clusters and parts at once: a cluster for each pair that there is."""
    count = int(parts.max(initial=0)) + 1
    pair = labels.astype(np.int64) * count + parts
    places = (int(labels.max(initial=0)) + 1) * count
    if places > 4 * len(pair):
        _, first, pair = np.unique(pair, return_index=True, return_inverse=True)
        return numbered(first[pair.reshape(-1)].astype(np.int32))
    first = np.empty(places, dtype=np.int32)
    first[pair[::-1]] = np.arange(len(pair), dtype=np.int32)[::-1]  # the last one that is written stays: the first node
    return numbered(first[pair])


def _of_clusters(parts: Parts, labels: Parts) -> Parts:
    """The part of each cluster, from the parts of its nodes, which are one."""
    of_clusters = np.empty(int(labels.max()) + 1, dtype=np.int32)
    of_clusters[labels] = parts
    return of_clusters
