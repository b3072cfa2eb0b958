"""Adjacency matrix of each model: with a self loop per node or without, with symmetric weights or none."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from datasets.csr import Csr, index_dtype
from datasets.graph import Graph

SELF_LOOP_MODELS = ("gcn", "gat", "sgc", "ngcn")
NORMALISED = ("gcn", "sgc", "ngcn", "lightgcn")


@dataclass(frozen=True)
class Adjacency:
    """The sparse operand of a layer: the edges, their weights (normalised models) and the degrees behind them.

    ``inverse_sqrt_degree`` float32 [nodes] is their ``D^-1/2``, for engines that scale rows instead of edges;
    ``edge_weight`` float32 [nnz] is the raw weight of each edge (1 on self loops), ``None`` if the graph has none;
    ``edge_features`` [nnz, width] are for gat, 0 on self loops.
    """

    csr: Csr
    weight: NDArray[np.floating] | None = None
    inverse_sqrt_degree: NDArray[np.float32] | None = None
    edge_weight: NDArray[np.float32] | None = None
    edge_features: NDArray[np.float32] | None = None


def add_self_loops(csr: Csr, node_ids: NDArray[np.integer] | None = None) -> tuple[Csr, NDArray[np.int64]]:
    """Add one self loop per node; also return each edge's old position, -1 for a loop.

    Raises ValueError for a graph that already has one. The loop of node v gets the edge id ``largest id + 1 + v``, v
    its original number where ``node_ids`` [nodes] gives one, so that no order changes it; or the rank of that number,
    where some are negative or too large for an edge id.
    """
    looped, old_positions = insert_self_loops(csr, 0)
    is_edge = old_positions >= 0
    ids = np.empty(looped.nnz, dtype=np.int64)
    numbers = np.arange(csr.shape[0]) if node_ids is None else np.asarray(node_ids, dtype=np.int64)
    first = int(csr.ids.max(initial=-1)) + 1
    if numbers.min(initial=0) < 0 or numbers.max(initial=0) > np.iinfo(np.int64).max - first:
        numbers = np.unique(numbers, return_inverse=True)[1]  # else a loop gets the id, and by it the mask, of an edge
    ids[is_edge], ids[~is_edge] = csr.ids, first + numbers
    ids = ids.astype(index_dtype(int(ids.max(initial=0))))
    return Csr(looped.indptr, looped.indices, csr.shape, ids), old_positions


def insert_self_loops(rows: Csr, first: int) -> tuple[Csr, NDArray[np.int64]]:
    """Insert a self loop into each of the rows of nodes ``first`` and following, keeping columns ascending.

    Also returns each edge's old position, -1 for a loop; edge ids become positions.
    """
    count, nnz = rows.shape[0], rows.nnz
    dtype = index_dtype(max(nnz + count, rows.shape[1]))
    nodes = (rows.destinations + first).astype(dtype, copy=False)
    if bool((rows.indices == nodes).any()):
        raise ValueError(
            "the graph already has self loops, but an adjacency adds one per node: "
            "build its CSR with datasets.edge_list, which drops them"
        )
    before = np.bincount(rows.destinations[rows.indices < nodes], minlength=count)
    loops = rows.indptr[:-1].astype(np.int64) + before + np.arange(count)
    old_positions = np.full(nnz + count, -1, dtype=np.int64)
    is_edge = np.ones(nnz + count, dtype=bool)
    is_edge[loops] = False
    old_positions[is_edge] = np.arange(nnz)
    indices = np.empty(nnz + count, dtype=dtype)
    indices[is_edge], indices[loops] = rows.indices, first + np.arange(count)
    indptr = (rows.indptr.astype(np.int64) + np.arange(count + 1)).astype(dtype)
    return Csr(indptr, indices, rows.shape), old_positions


def adjacency_of(graph: Graph, model: str, dtype: str = "float32") -> Adjacency:
    """Return the adjacency matrix of ``model`` on ``graph``, its weights of type ``dtype``.

    Degrees are those of the whole ``graph``.
    gcn, sgc, ngcn: ``D^-1/2 (A + I) D^-1/2`` with D the weighted in-degree of A + I (Kipf and Welling 2017);
    lightgcn: ``D^-1/2 A D^-1/2`` (He et al. 2020).
    """
    if model in SELF_LOOP_MODELS:
        csr, old_positions = add_self_loops(graph.csr, graph.node_ids)
    else:
        csr, old_positions = graph.csr, np.arange(graph.csr.nnz)
    if model not in NORMALISED:
        return Adjacency(csr, edge_features=_edge_features(graph, old_positions) if model == "gat" else None)
    edge_weight: NDArray[np.float32] | None = None
    if graph.edge_weights is not None:
        edge_weight = np.ones(csr.nnz, dtype=np.float32)
        edge_weight[old_positions >= 0] = graph.edge_weights[old_positions[old_positions >= 0]]
    ones = np.ones(csr.nnz) if edge_weight is None else edge_weight.astype(np.float64)
    degree = np.bincount(csr.destinations, weights=ones, minlength=csr.shape[0])
    scale = np.zeros(len(degree))  # also where weights below 0 leave no degree that has a root
    scale[degree > 0] = degree[degree > 0] ** -0.5
    weight = (scale[csr.destinations] * ones * scale[csr.indices]).astype(dtype)
    return Adjacency(csr, weight, scale.astype(np.float32), edge_weight)


def _edge_features(graph: Graph, positions: NDArray[np.int64]) -> NDArray[np.float32] | None:
    """Features of the edges at ``positions``, 0 at position -1."""
    if graph.edge_features is None:
        return None
    features = np.zeros((len(positions), graph.edge_features.shape[1]), dtype=np.float32)
    features[positions >= 0] = graph.edge_features[positions[positions >= 0]]
    return features
