"""KaMinPar as a peer: it reads its graph from a file, in preparation."""

import tempfile
from pathlib import Path

import kaminpar
import numpy as np

from backends.contract import Clock
from backends.kernels.partition import Parts, UndirectedGraph
from backends.partitioners.cut import CutPartitioner
from datasets.array_files import append_array

CONTEXTS = {"kaminpar": "default", "kaminpar_strong": "strong", "terapart": "terapart"}
_WORD = 8  # bytes of every number in the file
_UNWEIGHTED, _NODE_WEIGHTS = 3, 1  # the file's version: bit 0: no weights of edges, bit 1: none of nodes


class KaminparPartitioner(CutPartitioner):
    """Assigns nodes by KaMinPar; other parts with each run on threads."""

    peer = "KaMinPar"

    def load(self, graph: UndirectedGraph) -> None:
        """Write the graph to a file and let KaMinPar read it, which is the only way in."""
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "graph.parhip"
            write_parhip(path, graph)
            # TeraPart holds its graph compressed
            compressed = self.config.tool == "terapart"
            self.loaded = kaminpar.load_graph(str(path), kaminpar.GraphFileFormat.PARHIP, compressed)
        context = getattr(kaminpar, f"{CONTEXTS[self.config.tool]}_context")()
        self.instance = kaminpar.KaMinPar(self.task.threads, context)

    def assign(self, graph: UndirectedGraph | None, clock: Clock) -> Parts:
        """Run KaMinPar on the graph that was handed over, phase ``kaminpar``."""
        kaminpar.reseed(self.task.seed & 0x7FFFFFFF)
        with clock.phase("kaminpar"):
            parts = self.instance.compute_partition(self.loaded, self.task.parts, self.task.imbalance - 1)
        return np.asarray(parts, dtype=np.int32)


def write_parhip(path: Path, graph: UndirectedGraph) -> None:
    """Write a graph in the binary format of ParHIP: places of the rows in the file, neighbours, weights of nodes."""
    weighted = bool((graph.node_weights != 1).any())
    header = np.array([_NODE_WEIGHTS if weighted else _UNWEIGHTED, graph.nodes, len(graph.neighbours)], dtype=np.uint64)
    first = _WORD * (len(header) + graph.nodes + 1)
    with path.open("wb") as file:
        append_array(file, header)
        append_array(file, (graph.starts * _WORD + first).astype(np.uint64))
        append_array(file, graph.neighbours.astype(np.uint64))
        if weighted:
            append_array(file, graph.node_weights[:, 0].astype(np.int64))
