"""Mt-KaHyPar as a peer: its deterministic preset for graphs, on all threads."""

from typing import Any

import mtkahypar
import numpy as np

from backends.contract import Clock, Unsupported
from backends.kernels.partition import Parts, UndirectedGraph
from backends.partitioners.cut import CutPartitioner

_started: dict[int, Any] = {}  # number of threads: the library on them


class MtKahyparPartitioner(CutPartitioner):
    """Assigns nodes by Mt-KaHyPar; the same parts for any number of threads and, as its preset ignores it, any seed."""

    peer = "Mt-KaHyPar"
    most_weight = np.iinfo(np.int32).max

    def load(self, graph: UndirectedGraph) -> None:
        """List the edges, each in one direction, and start the library."""
        sources = np.repeat(np.arange(graph.nodes, dtype=np.int32), np.diff(graph.starts))
        once = sources < graph.neighbours
        edges = list(zip(sources[once].tolist(), graph.neighbours[once].tolist(), strict=True))
        self.lists = graph.nodes, len(edges), edges, graph.node_weights[:, 0].tolist(), [1] * len(edges)
        self.instance = library_on(self.task.threads)
        self.context = self.instance.context_from_preset(mtkahypar.PresetType.DETERMINISTIC)
        self.context.set_partitioning_parameters(self.task.parts, self.task.imbalance - 1, mtkahypar.Objective.CUT)

    def assign(self, graph: UndirectedGraph | None, clock: Clock) -> Parts:
        """Build Mt-KaHyPar's graph, phase ``build``, and run it, phase ``mtkahypar``.

        The graph is a new one in each call: a run removes isolated nodes of its graph, and a second run crashes.
        """
        if self.task.parts == 1:  # with loads of 0 the library also uses a second part
            return np.zeros(self.lists[0], dtype=np.int32)
        mtkahypar.set_seed(self.task.seed & 0x7FFFFFFF)
        with clock.phase("build"):
            own = self.instance.create_graph(self.context, *self.lists)
        with clock.phase("mtkahypar"):
            parts = own.partition(self.context).get_partition()
        return np.asarray(parts, dtype=np.int32)


def library_on(threads: int) -> Any:
    """The library on its threads, which a process starts once; raises Unsupported for another number of them."""
    if not _started:
        _started[threads] = mtkahypar.initialize(threads)
    if threads not in _started:
        raise Unsupported(f"Mt-KaHyPar stays on the threads that this process began with, {next(iter(_started))}")
    return _started[threads]
