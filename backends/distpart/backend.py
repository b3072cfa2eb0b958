"""Scenario ``partition`` by our own methods."""

import tempfile
from pathlib import Path

import numpy as np

from backends.base.partitioner import GraphPartitioner
from backends.contract import Clock
from backends.distpart.multilevel import Multilevel
from backends.kernels.growing import IN_MEMORY, Storage
from backends.kernels.partition import Parts, UndirectedGraph
from datasets.randomness import hash_ids

_SHARE = 8  # of the memory: edges, their weights and those of the contracted graph are there at the same time
_BYTES_PER_EDGE = 32  # of an undirected graph in memory, its directions and its contractions
_FENNEL_POWER = 1.5  # gamma of the paper, which its price of a node contains


def storage_of(memory: int, folder: Path, directed: int | None = None) -> Storage:
    """Arrays in ``folder`` where they are large for ``memory`` bytes; all in memory for 0.

    ``directed``: number of edges whose directions are read, which are known in memory alone: all lie there if they
    take at most half of it.
    """
    fits = directed is not None and directed * _BYTES_PER_EDGE <= memory // 2
    return IN_MEMORY if not memory or fits else Storage(folder, memory // _SHARE)


class DistPartitioner(GraphPartitioner):
    """Assigns nodes by the configured method."""

    def assign(self, graph: UndirectedGraph | None, clock: Clock) -> Parts:
        """Phases of the method; ``graph`` is ``None`` for a method that reads no edges."""
        task, method = self.task, self.config.method
        if graph is None:
            ids = np.arange(self.graph.nodes) if self.graph.node_ids is None else np.asarray(self.graph.node_ids)
            return (hash_ids(task.seed, "random partition", ids) % np.uint64(task.parts)).astype(np.int32)
        bounds = task.bounds
        if method == "multilevel":
            volume = task.objective == "volume"
            multilevel = Multilevel(task.parts, bounds, task.seed, task.threads, self.config.cycles, volume)
            return multilevel.assign(graph, clock)
        with clock.phase("stream"):
            edges = len(graph.neighbours) / 2
            slope = 0.0 if method == "ldg" else task.parts**0.5 * edges / max(1, graph.nodes) ** _FENNEL_POWER
            return graph.streamed(task.parts, bounds, slope, self.config.passes)

    def storage(self) -> Storage:
        """Files of the temporary folder where memory is bounded and does not hold the directions of all edges."""
        directed = self.graph.csr.nnz if self.reads_directions else None
        return storage_of(int(self.config.memory * 2**30), Path(tempfile.gettempdir()), directed)

    @property
    def reads_directions(self) -> bool:
        """A part needs the rows of its in-edges' sources."""
        return bool(self.config.method == "multilevel" and self.task.objective == "volume")

    @property
    def reads_edges(self) -> bool:
        """All methods but ``random`` do."""
        return bool(self.config.method != "random")
