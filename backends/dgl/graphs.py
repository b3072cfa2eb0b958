"""The graphs that DGL samples from and aggregates over, and what gcn reads of the whole graph beside its edges."""

from typing import Any

import numpy as np
import torch
from torch import Tensor

from backends.dgl.network import DglHop
from backends.dgl.quiet import dgl, graph_of
from datasets.adjacency import Adjacency
from datasets.csr import Csr


class DglWholeGraph:
    """A DGL graph with gcn's row scale; with gcn's edge weights for weighted graphs and with ``weighted``."""

    def __init__(self, adjacency: Adjacency, weighted: bool) -> None:
        self.graph, self.csr = graph_of(adjacency.csr), adjacency.csr
        self.scale, self.weight = _scale_and_weight(adjacency, weighted)
        features = adjacency.edge_features
        self.features = None if features is None else torch.from_numpy(features)

    def hop(self, block: Any = None) -> DglHop:
        """The graph of one layer: a sampled block, or the whole graph."""
        if block is None:
            return DglHop(self.graph, self.csr.shape[0], self.scale, self.weight, self.features, self.csr)
        scale = None if self.scale is None else self.scale[block.srcdata[dgl.NID]]
        weight = None if self.weight is None else self.weight[block.edata[dgl.EID]]
        features = None if self.features is None else self.features[block.edata[dgl.EID]]
        return DglHop(block, block.num_dst_nodes(), scale, weight, features)


class LoopFreeGraph:
    """A graph without self loops to sample from, whose blocks get their loops after sampling.

    A fanout would otherwise leave out some nodes' own loops. The edges of ``graph`` are in the order of ``csr``; gcn's
    row scale, or its weights of edges and of loops, are those of ``adjacency``, which has the loops.
    """

    def __init__(self, csr: Csr, adjacency: Adjacency, weighted: bool) -> None:
        self.graph = graph_of(csr)
        self.scale, weight = _scale_and_weight(adjacency, weighted)
        self.edge_weight: Tensor | None = None
        self.loop_weight: Tensor | None = None
        if weight is not None:
            is_loop = torch.from_numpy(adjacency.csr.indices == adjacency.csr.destinations)
            self.edge_weight, self.loop_weight = weight[~is_loop, 0], weight[is_loop, 0]

    def hop(self, block: Any) -> DglHop:
        """The graph of one layer: a sampled block with its self loops."""
        looped, is_loop = add_loops(block)
        scale = None if self.scale is None else self.scale[block.srcdata[dgl.NID]]
        return DglHop(looped, block.num_dst_nodes(), scale, self._weight(block, is_loop))

    def _weight(self, block: Any, is_loop: Tensor) -> Tensor | None:
        """The weight of each edge of a block with loops, [edges, 1]."""
        if self.edge_weight is None or self.loop_weight is None:
            return None
        edges, order = block.edata[dgl.EID], block.adj_tensors("csc")[2]
        if len(order):  # without it DGL means the order of the edge ids
            edges = edges[order]
        loops = self.loop_weight[block.dstdata[dgl.NID]]
        return _merge(is_loop, loops, self.edge_weight[edges])[:, None]


def add_loops(block: Any) -> tuple[Any, Tensor]:
    """Give every destination of a block, which is its source of the same number, a self loop as its first in-edge.

    Edges get the order of the block's CSC matrix, which a sampled block has: the new block is made from it, so that
    DGL does not sort. Also returns which of the edges are loops.
    """
    indptr, sources, _ = block.adj_tensors("csc")
    indptr = indptr + torch.arange(len(indptr), dtype=indptr.dtype)
    nodes = torch.arange(block.num_dst_nodes(), dtype=sources.dtype)
    is_loop = torch.zeros(len(sources) + len(nodes), dtype=torch.bool)
    is_loop[indptr[:-1].long()] = True
    # With explicit edge ids, as in ``graph_of``.
    edges = torch.arange(len(is_loop), dtype=sources.dtype)
    matrix = "csc", (indptr, _merge(is_loop, nodes, sources), edges)
    looped = dgl.create_block(matrix, block.num_src_nodes(), block.num_dst_nodes(), idtype=block.idtype)
    looped.srcdata[dgl.NID] = block.srcdata[dgl.NID]
    return looped, is_loop


def _merge(is_loop: Tensor, loops: Tensor, edges: Tensor) -> Tensor:
    """The values of loops where ``is_loop``, those of edges elsewhere, each in their order."""
    merged = torch.empty(len(is_loop), dtype=edges.dtype)
    return merged.masked_scatter_(is_loop, loops).masked_scatter_(~is_loop, edges)


def _scale_and_weight(adjacency: Adjacency, weighted: bool) -> tuple[Tensor | None, Tensor | None]:
    """Gcn's scale of rows, or its weights where the graph has edge weights or ``weighted``; the other is ``None``."""
    if weighted or adjacency.edge_weight is not None:
        return None, _column(adjacency.weight)
    return _column(adjacency.inverse_sqrt_degree), None


def _column(values: Any) -> Tensor | None:
    return None if values is None else torch.from_numpy(np.array(values, dtype=np.float32))[:, None]
