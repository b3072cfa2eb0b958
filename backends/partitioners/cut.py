"""What the peers share that lower the cut only; the undirected graph is handed over to them in preparation."""

from typing import ClassVar

import numpy as np

from backends.base.partitioner import GraphPartitioner
from backends.contract import Clock, PartitionTask, Unsupported
from backends.kernels.partition import UndirectedGraph
from datasets.graph import Graph


class CutPartitioner(GraphPartitioner):
    """A peer with one constraint and the cut as its objective; to define: ``peer``, ``load(graph)``, ``assign``."""

    peer: ClassVar[str]  # what messages call it
    most_weight: ClassVar[int] = np.iinfo(np.int64).max  # of all nodes together

    def prepare(self, graph: Graph, task: PartitionTask, clock: Clock) -> None:
        """Also hand over the undirected graph, phase ``load``; raises Unsupported for what the peer does not have."""
        super().prepare(graph, task, clock)
        constraints = task.weights.shape[1]
        if constraints > 1 or task.objective != "cut":
            raise Unsupported(
                f"{self.peer} balances one constraint and lowers the cut, asked were {constraints} and the "
                f"{task.objective}: give scenario.balance one name and scenario.objective=cut"
            )
        if (total := int(task.weights.sum())) > self.most_weight:
            raise Unsupported(
                f"{self.peer} adds loads up to {self.most_weight}, those of all nodes are {total}: use another tool"
            )
        with clock.phase("load"):
            self.load(UndirectedGraph.of(graph.csr, task.weights, task.threads))

    def load(self, graph: UndirectedGraph) -> None:
        """Hand over the undirected graph in the form that the peer takes."""
        raise TypeError(f"{type(self).__name__} must define load")
