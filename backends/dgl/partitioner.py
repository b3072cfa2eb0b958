"""DGL's assignment of nodes to parts: its own symmetric graph, then the METIS that it is built with."""

import contextlib
import io

import numpy as np

from backends.base.partitioner import GraphPartitioner
from backends.contract import Clock, PartitionTask, Unsupported
from backends.dgl.quiet import dgl
from backends.dgl.sampler import in_edges_of
from backends.kernels.partition import Parts, UndirectedGraph
from datasets.graph import Graph


class DglPartitioner(GraphPartitioner):
    """Assigns nodes by ``metis_partition_assignment``; nodes or in-degrees are balanced, within METIS's own bound."""

    reads_edges = False  # it makes its own undirected graph

    def prepare(self, graph: Graph, task: PartitionTask, clock: Clock) -> None:
        """Build DGL's graph without parallel edges, phase ``structure``.

        Raises Unsupported for loads that DGL does not balance.
        """
        super().prepare(graph, task, clock)
        dgl.utils.set_num_threads(task.threads)
        loads = task.weights[:, 0] if task.weights.shape[1] == 1 else None
        self.by_edges = loads is not None and np.array_equal(loads, graph.csr.in_degrees)
        if not self.by_edges and (loads is None or (loads != 1).any()):
            raise Unsupported("backend dgl balances nodes or edges alone: give scenario.balance one of the two names")
        with clock.phase("structure"):
            # METIS as DGL builds it writes beyond its arrays where edges are parallel
            self.edges = dgl.to_simple(in_edges_of(graph.csr, wide=True))

    def assign(self, graph: UndirectedGraph | None, clock: Clock) -> Parts:
        """Run DGL's function, phase ``metis``; what it prints is dropped."""
        if self.task.parts == 1:
            return np.zeros(self.graph.nodes, dtype=np.int32)
        objective = "vol" if self.task.objective == "volume" else "cut"
        with clock.phase("metis"), contextlib.redirect_stdout(io.StringIO()):
            parts = dgl.metis_partition_assignment(
                self.edges, self.task.parts, balance_edges=self.by_edges, objtype=objective
            )
        return np.asarray(parts.numpy(), dtype=np.int32)
