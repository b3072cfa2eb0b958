"""METIS as a peer: one thread, the whole undirected graph in memory."""

import numpy as np

from backends.base.partitioner import GraphPartitioner
from backends.contract import Clock, Unsupported
from backends.kernels.partition import Parts, UndirectedGraph


class MetisPartitioner(GraphPartitioner):
    """Assigns nodes by METIS; one constraint, the cut as its objective or the volume."""

    def assign(self, graph: UndirectedGraph | None, clock: Clock) -> Parts:
        """Run METIS, phase ``metis``; raises Unsupported for several constraints, and beyond METIS's integers."""
        import pymetis

        assert graph is not None
        if graph.node_weights.shape[1] > 1:
            raise Unsupported("backend partitioners balances one constraint: give scenario.balance one name")
        task = self.task
        if task.parts == 1:
            return np.zeros(graph.nodes, dtype=np.int32)
        kind = int(pymetis.ObjType.VOL if task.objective == "volume" else pymetis.ObjType.CUT)
        imbalance = max(1, round(1000 * (min(task.imbalance, task.parts) - 1)))  # which METIS takes as an integer
        options = pymetis.Options(seed=task.seed & 0x7FFFFFFF, ufactor=imbalance, objtype=kind)
        dtype = pymetis.zero_copy_dtype()
        _refuse_beyond(int(np.iinfo(dtype).max), graph)
        starts, neighbours = (array.astype(dtype, copy=False) for array in (graph.starts, graph.neighbours))
        even = (graph.node_weights == 1).all()
        with clock.phase("metis"):
            cut = pymetis.part_graph(
                task.parts,
                pymetis.CSRAdjacency(starts, neighbours),
                vweights=None if even else graph.node_weights[:, 0].astype(dtype),
                recursive=self.config.tool == "recursive",
                options=options,
            )
        return np.asarray(cut.vertex_part, dtype=np.int32)


def _refuse_beyond(most: int, graph: UndirectedGraph) -> None:
    """Raise Unsupported for more neighbours or loads than an integer of METIS counts."""
    if (total := int(graph.starts[-1])) > most:
        raise Unsupported(
            f"METIS counts up to {most} neighbours, those of all nodes are {total}: use another partitioner"
        )
    if (total := int(graph.node_weights.sum())) > most:
        raise Unsupported(f"METIS adds loads up to {most}, those of all nodes are {total}: use another partitioner")
