"""Scenario ``partition`` of all engines: the undirected graph is built in the timed call, then nodes are assigned."""

from typing import Any

import torch

from backends.contract import Clock, Nodes, PartitionTask
from backends.kernels.extension import require
from backends.kernels.growing import IN_MEMORY, Storage
from backends.kernels.partition import Parts, UndirectedGraph
from backends.registry import BackendConfig
from datasets.graph import Graph


class GraphPartitioner:
    """A ``contract.Partitioner``; to define: ``assign(graph, clock)``, the part of each node."""

    reads_edges = True  # whether the assignment depends on the edges
    reads_directions = False  # whether it also depends on which of two nodes an edge begins at

    def __init__(self, config: BackendConfig) -> None:
        self.config: Any = config

    def prepare(self, graph: Graph, task: PartitionTask, clock: Clock) -> None:
        """Take over the graph and the task; all work is in the timed call."""
        if self.reads_edges:
            require("edges are read as an undirected graph")
        torch.set_num_threads(task.threads)
        self.graph, self.task = graph, task

    def storage(self) -> Storage:
        """Where the undirected graph lies."""
        return IN_MEMORY

    def assign(self, graph: UndirectedGraph | None, clock: Clock) -> Parts:
        """Assign each node to a part; ``graph`` is ``None`` unless ``reads_edges``."""
        raise TypeError(f"{type(self).__name__} must define assign")

    def partition(self, clock: Clock) -> None:
        """Build the undirected graph, phase ``symmetric``, and assign its nodes."""
        graph = None
        if self.reads_edges:
            with clock.phase("symmetric"):
                graph = UndirectedGraph.of(
                    self.graph.csr,
                    self.task.weights,
                    self.task.threads,
                    self.storage(),
                    directions=self.reads_directions,
                )
        self.parts = self.assign(graph, clock)

    def assignment(self) -> Nodes:
        """The part of each node, of the last ``partition``."""
        return self.parts.astype("int64")

    def facts(self) -> dict[str, Any]:
        """Nothing beside what the harness computes from the assignment."""
        return {}

    def close(self) -> None:
        """Nothing runs between the calls."""
