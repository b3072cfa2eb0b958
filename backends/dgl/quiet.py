"""Import of DGL without its messages, DGL graphs of our matrices, and a measurement of its libxsmm kernels."""

import os
import statistics
import time
from typing import Any

import numpy as np
import torch

# Without it DGL looks for its configuration in the home folder, prints that there is none and writes one.
os.environ.setdefault("DGLBACKEND", "pytorch")

import dgl

from datasets.csr import Csr, index_dtype
from datasets.randomness import hash_ids

__all__ = ["dgl", "graph_of", "libxsmm_effect"]


def graph_of(csr: Csr) -> dgl.DGLGraph:
    """A DGL graph on int32 ids while they fit, with edges in the order of ``csr``, in all of DGL's formats."""
    kind = index_dtype(max(csr.nnz, *csr.shape))
    rows, columns, edges = (
        torch.from_numpy(np.array(array, dtype=kind)) for array in (csr.indptr, csr.indices, np.arange(csr.nnz))
    )
    # Without explicit edge ids libxsmm refuses copy_e_sum, which gat's backward pass needs.
    graph = dgl.graph(("csc", (rows, columns, edges)), num_nodes=csr.shape[0], idtype=rows.dtype)
    graph.create_formats_()
    return graph


def libxsmm_effect(nodes: int = 4096, degree: int = 16, width: int = 64) -> dict[str, Any]:
    """Median seconds of 6 ``copy_u_sum`` on a fixed graph with and without libxsmm, and whether it is enabled."""
    indices = (hash_ids(0, "libxsmm", np.arange(nodes * degree)) % np.uint64(nodes)).astype(np.int32)
    graph = graph_of(Csr(np.arange(nodes + 1, dtype=np.int32) * degree, indices, (nodes, nodes)))
    x = torch.ones((nodes, width))
    enabled = bool(dgl.is_libxsmm_enabled())
    effect: dict[str, Any] = {"enabled": enabled}
    try:
        for name, flag in (("seconds_with", True), ("seconds_without", False)):
            dgl.use_libxsmm(flag)
            effect[name] = statistics.median(_seconds(graph, x) for _ in range(6))
    finally:
        dgl.use_libxsmm(enabled)
    return effect


def _seconds(graph: dgl.DGLGraph, x: torch.Tensor) -> float:
    start = time.perf_counter()
    dgl.ops.copy_u_sum(graph, x)
    return time.perf_counter() - start
