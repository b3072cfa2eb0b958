"""DGL itself, imported once and quietly, and the effect of its libxsmm kernels."""

import os
import statistics
import time
from typing import Any

import numpy as np
import torch

# Without it DGL asks the home folder for a backend, prints that it found none and writes one there.
os.environ.setdefault("DGLBACKEND", "pytorch")

import dgl

from datasets.csr import Csr, index_dtype
from datasets.randomness import hash_ids

__all__ = ["FullNeighbourSampler", "dgl", "graph_of", "libxsmm_effect"]


def graph_of(csr: Csr) -> dgl.DGLGraph:
    """A DGL graph, on int32 while it fits, whose edges keep their order, with every format made."""
    kind = index_dtype(max(csr.nnz, *csr.shape))
    rows, columns, edges = (
        torch.from_numpy(np.array(part, dtype=kind)) for part in (csr.indptr, csr.indices, np.arange(csr.nnz))
    )
    # Without explicit edge ids libxsmm refuses copy_e_sum, which gat's backward pass needs.
    graph = dgl.graph(("csc", (rows, columns, edges)), num_nodes=csr.shape[0], idtype=rows.dtype)
    graph.create_formats_()
    return graph


class FullNeighbourSampler(dgl.dataloading.MultiLayerFullNeighborSampler):  # type: ignore[misc]
    """DGL's sampler of all neighbours, made right for int32 graphs.

    DGL 1.1.3 keeps the map from nodes to block positions as int64, but its fused kernel reads it in the graph's index
    type: with int32 old entries survive, and from the second batch on blocks hold wrong nodes.
    """

    g: Any
    mapping: dict[str, list[torch.Tensor]]

    def sample_blocks(self, g: Any, seed_nodes: Any, exclude_eids: Any = None) -> Any:
        """See DGL; the map is this process's own, as DGL names it."""
        name = f"__mapping{os.getpid()}"
        if self.g is not g or name not in self.mapping:
            self.g, self.mapping = g, {name: [torch.full((g.num_nodes(),), -1, dtype=g.idtype)]}
        return super().sample_blocks(g, seed_nodes, exclude_eids)


def libxsmm_effect(nodes: int = 4096, degree: int = 16, width: int = 64) -> dict[str, Any]:
    """Median seconds of 6 ``copy_u_sum`` on a fixed graph with and without libxsmm, and whether it is on."""
    indices = (hash_ids(0, "libxsmm", np.arange(nodes * degree)) % np.uint64(nodes)).astype(np.int32)
    graph = graph_of(Csr(np.arange(nodes + 1, dtype=np.int32) * degree, indices, (nodes, nodes)))
    x = torch.ones((nodes, width))
    enabled = bool(dgl.is_libxsmm_enabled())
    found: dict[str, Any] = {"enabled": enabled}
    try:
        for name, flag in (("seconds_with", True), ("seconds_without", False)):
            dgl.use_libxsmm(flag)
            found[name] = statistics.median(_seconds(graph, x) for _ in range(6))
    finally:
        dgl.use_libxsmm(enabled)
    return found


def _seconds(graph: dgl.DGLGraph, x: torch.Tensor) -> float:
    start = time.perf_counter()
    dgl.ops.copy_u_sum(graph, x)
    return time.perf_counter() - start
