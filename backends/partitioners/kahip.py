"""KaHIP as a peer: one thread, the mode ``FAST`` of its function ``kaffpa``."""

import kahip
import numpy as np

from backends.contract import Clock, Unsupported
from backends.kernels.partition import Parts, UndirectedGraph
from backends.partitioners.cut import CutPartitioner


class KahipPartitioner(CutPartitioner):
    """Assigns nodes by KaHIP; a part may be heavier than the bound, as ``kaffpa`` does not enforce it."""

    peer = "KaHIP"
    most_weight = np.iinfo(np.int32).max

    def load(self, graph: UndirectedGraph) -> None:
        """List weights and neighbours: ``kaffpa`` reads elements one by one, of lists faster than of arrays.

        Raises Unsupported for settings that ``kaffpa`` may not return from.
        """
        if self.task.imbalance <= 1:
            raise Unsupported("KaHIP may crash in search of perfect balance: give scenario.imbalance more than 1")
        if (graph.node_weights == 0).any():
            raise Unsupported("KaHIP may run forever with loads of 0: choose a scenario.balance that every node has")
        edge_weights = [1] * len(graph.neighbours)
        self.lists = (graph.node_weights[:, 0].tolist(), graph.starts.tolist(), edge_weights, graph.neighbours.tolist())

    def assign(self, graph: UndirectedGraph | None, clock: Clock) -> Parts:
        """Run KaHIP on the lists, phase ``kahip``; reading them is part of it."""
        task = self.task
        quiet, seed = True, task.seed & 0x7FFFFFFF
        with clock.phase("kahip"):
            _, parts = kahip.kaffpa(*self.lists, task.parts, task.imbalance - 1, quiet, seed, kahip.FAST)
        return np.asarray(parts, dtype=np.int32)
