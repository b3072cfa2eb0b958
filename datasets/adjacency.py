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
    looped, old = insert_self_loops(csr, 0)
    is_edge = old >= 0
    ids = np.empty(looped.nnz, dtype=np.int64)
    ids[is_edge], ids[~is_edge] = csr.ids, int(csr.ids.max(initial=-1)) + 1 + np.arange(csr.shape[0])
    return Csr(looped.indptr, looped.indices, csr.shape, ids.astype(index_dtype(int(ids.max(initial=0))))), old


def insert_self_loops(rows: Csr, first: int) -> tuple[Csr, NDArray[np.int64]]:
    """Give each of some rows, those of nodes ``first`` and following, its self loop in ascending place.

    Also returns each edge's old position, -1 for a loop; edge ids become positions.
    """
    count, nnz = rows.shape[0], rows.nnz
    dtype = index_dtype(max(nnz + count, rows.shape[1]))
    nodes = (rows.destinations + first).astype(dtype, copy=False)
    if bool((rows.indices == nodes).any()):
        raise ValueError("the graph already holds self loops: loaders drop them, adjacencies add one per node")
    before = np.bincount(rows.destinations[rows.indices < nodes], minlength=count)
    loops = rows.indptr[:-1].astype(np.int64) + before + np.arange(count)
    old = np.full(nnz + count, -1, dtype=np.int64)
    is_edge = np.ones(nnz + count, dtype=bool)
    is_edge[loops] = False
    old[is_edge] = np.arange(nnz)
    indices = np.empty(nnz + count, dtype=dtype)
    indices[is_edge], indices[loops] = rows.indices, first + np.arange(count)
    indptr = (rows.indptr.astype(np.int64) + np.arange(count + 1)).astype(dtype)
    return Csr(indptr, indices, rows.shape), old


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
