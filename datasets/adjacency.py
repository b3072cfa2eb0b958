"""The matrix each model propagates over: one self loop for gcn and gat, none for sage, gcn's symmetric weights."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from datasets.csr import Csr, index_dtype
from datasets.graph import Graph

SELF_LOOP_MODELS = ("gcn", "gat")


@dataclass(frozen=True)
class Adjacency:
    """What one layer multiplies with: the edges, their float32 weights (gcn) and what they were made from.

    ``inverse_sqrt_degree`` float32 [nodes] is ``D^-1/2`` of gcn, for engines that scale rows instead of edges;
    ``edge_weight`` float32 [nnz] is the raw weight of each edge (1 on self loops), ``None`` if the graph has none.
    """

    csr: Csr
    weight: NDArray[np.float32] | None = None
    inverse_sqrt_degree: NDArray[np.float32] | None = None
    edge_weight: NDArray[np.float32] | None = None


def add_self_loops(csr: Csr) -> tuple[Csr, NDArray[np.int64]]:
    """Add exactly one self loop per node; also return each edge's old position, -1 for a loop.

    The graph must hold none before. A loop of node v gets the edge id ``largest id + 1 + v``.
    """
    if bool((csr.indices == csr.destinations).any()):
        raise ValueError("the graph already holds self loops: loaders drop them, adjacencies add one per node")
    nodes, nnz = csr.shape[0], csr.nnz
    dtype = index_dtype(nnz + nodes)
    destinations = csr.destinations
    before = np.bincount(destinations[csr.indices < destinations], minlength=nodes)
    loops = csr.indptr[:-1].astype(np.int64) + before + np.arange(nodes)
    old = np.full(nnz + nodes, -1, dtype=np.int64)
    is_edge = np.ones(nnz + nodes, dtype=bool)
    is_edge[loops] = False
    old[is_edge] = np.arange(nnz)
    indices = np.empty(nnz + nodes, dtype=dtype)
    indices[is_edge], indices[loops] = csr.indices, np.arange(nodes)
    ids = np.empty(nnz + nodes, dtype=np.int64)
    ids[is_edge], ids[loops] = csr.ids, int(csr.ids.max(initial=-1)) + 1 + np.arange(nodes)
    indptr = (csr.indptr.astype(np.int64) + np.arange(nodes + 1)).astype(dtype)
    return Csr(indptr, indices, csr.shape, ids.astype(index_dtype(int(ids.max(initial=0))))), old


def adjacency_of(graph: Graph, model: str) -> Adjacency:
    """Return the matrix that ``model`` propagates over on ``graph``; degrees are those of the whole graph given.

    gcn: ``D^-1/2 (A + I) D^-1/2`` with D the weighted in-degree of A + I (Kipf and Welling 2017).
    """
    if model not in SELF_LOOP_MODELS:
        return Adjacency(graph.csr)
    csr, old = add_self_loops(graph.csr)
    if model != "gcn":
        return Adjacency(csr)
    raw: NDArray[np.float32] | None = None
    if graph.edge_weights is not None:
        raw = np.where(old >= 0, graph.edge_weights[np.maximum(old, 0)], np.float32(1)).astype(np.float32)
    ones = np.ones(csr.nnz) if raw is None else raw.astype(np.float64)
    degree = np.bincount(csr.destinations, weights=ones, minlength=csr.shape[0])
    with np.errstate(divide="ignore"):
        scale = np.where(degree > 0, degree**-0.5, 0.0)
    weight = (scale[csr.destinations] * ones * scale[csr.indices]).astype(np.float32)
    return Adjacency(csr, weight, scale.astype(np.float32), raw)
