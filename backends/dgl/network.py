"""The models over DGL's kernels, in the order of operations of GraphConv, SAGEConv and GATConv."""

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from backends.base.network import Network
from backends.dgl.quiet import dgl
from backends.model import ModelSpec
from datasets.csr import Csr


@dataclass
class DglHop:
    """The graph or block of one layer; its first sources are its ``rows`` destinations.

    ``scale`` [sources, 1] is gcn's ``D^-1/2`` of the whole graph; ``weight`` [edges, 1] replaces it where the graph has
    edge weights or the variant is ``weighted``. ``features`` [edges, width] are those of the edges, for gat. ``csr`` is
    the matrix of a whole graph.
    """

    graph: dgl.DGLGraph
    rows: int
    scale: Tensor | None = None
    weight: Tensor | None = None
    features: Tensor | None = None
    csr: Csr | None = None


@dataclass
class DglStructure:
    """The graphs of all layers, first layer first."""

    hops: list[DglHop]


def aggregates_first(spec: ModelSpec, layer: int) -> bool:
    """Whether DGL aggregates a layer's input: it does unless the input is wider than the output; GATConv never does."""
    return spec.name != "gat" and spec.width_in(layer) <= spec.width_out(layer)


class DglNetwork(Network):
    """GraphConv, SAGEConv and GATConv on canonical parameters."""

    def convolve(self, layer: int, hidden: Tensor, structure: Any) -> Tensor:
        """Apply one convolution without its activation."""
        hop: DglHop = structure.hops[layer]
        bias = self.parameter(layer, "bias")
        if self.spec.name == "gcn":
            return self._propagate(layer, hidden, self.parameter(layer, "weight"), hop) + bias
        if self.spec.name == "sage":
            own_term = torch.addmm(bias, first_rows(hidden, hop.rows), self.parameter(layer, "weight_self"))
            return own_term + self._propagate(layer, hidden, self.parameter(layer, "weight_neigh"), hop)
        heads = self._attend(layer, hidden, hop)
        return (heads.mean(1) if self.spec.is_last(layer) else heads.flatten(1)) + bias

    def propagate(self, x: Tensor, structure: Any) -> Tensor:
        """Multiply by the matrix, as in scenario ``spmm``."""
        return aggregate(x, structure.hops[0])

    def _propagate(self, layer: int, hidden: Tensor, weight: Tensor, hop: DglHop) -> Tensor:
        if hidden.layout is torch.strided and aggregates_first(self.spec, layer):
            return aggregate(hidden, hop) @ weight
        return aggregate(hidden @ weight, hop)

    def _attend(self, layer: int, hidden: Tensor, hop: DglHop) -> Tensor:
        heads, graph = self.spec.heads_of(layer), hop.graph
        z = (hidden @ self.parameter(layer, "weight")).view(len(hidden), heads, -1)
        score_src = (z * self.parameter(layer, "att_src")).sum(-1, keepdim=True)
        score_dst = (z[: hop.rows] * self.parameter(layer, "att_dst")).sum(-1, keepdim=True)
        dropout = self.settings.attention_dropout if self.training else 0.0
        return attend(graph, z, score_src, score_dst, self.spec.slope, dropout, self._edge_scores(layer, hop))

    def _edge_scores(self, layer: int, hop: DglHop) -> Tensor | None:
        """What features of edges add to the scores, [edges, heads, 1]: one narrow product, as a user would write it."""
        if not self.spec.edge_width:
            return None
        assert hop.features is not None
        vectors = self.parameter(layer, "att_edge")
        weight = self.parameter(layer, "weight_edge").view(-1, *vectors.shape)
        return (hop.features @ (weight * vectors).sum(2))[:, :, None]


def first_rows(hidden: Tensor, rows: int) -> Tensor:
    """The first rows; all of them without a slice, which a sparse tensor does not have."""
    return hidden if len(hidden) == rows else hidden[:rows]


def attend(
    graph: Any,
    z: Tensor,
    score_src: Tensor,
    score_dst: Tensor,
    slope: float,
    dropout: float,
    score_edge: Tensor | None = None,
) -> Tensor:
    """Attention from scores [nodes, heads, 1], and [edges, heads, 1], over in-edges: [rows, heads, width]."""
    score = dgl.ops.u_add_v(graph, score_src, score_dst)
    score = functional.leaky_relu(score if score_edge is None else score + score_edge, slope)
    alpha = functional.dropout(dgl.ops.edge_softmax(graph, score), dropout, dropout > 0)
    out: Tensor = dgl.ops.u_mul_e_sum(graph, z, alpha)
    return out


def aggregate(x: Tensor, hop: DglHop) -> Tensor:
    """Weighted or scaled sum (gcn), or mean, of ``x`` over in-edges."""
    if hop.weight is not None:
        out: Tensor = dgl.ops.u_mul_e_sum(hop.graph, x, hop.weight)
    elif hop.scale is not None:
        out = dgl.ops.copy_u_sum(hop.graph, x * hop.scale) * hop.scale[: hop.rows]
    else:
        out = dgl.ops.copy_u_mean(hop.graph, x)
    return out
