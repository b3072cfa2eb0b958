"""The models over our kernels: one matrix per layer, aggregating at the narrower of a layer's two widths."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from backends.base.loss import Targets, loss_of
from backends.base.network import Network
from backends.base.trainer import TorchTrainer
from backends.kernels import bias_activation, binary_cross_entropy, dense, gat, gat_layer, projection, spmm
from backends.kernels.rows import MatrixRows, spmm_with_own
from backends.model import ModelSpec, TrainingSpec
from datasets.adjacency import adjacency_of
from datasets.csr import Csr
from datasets.graph import Graph

Parts = dict[str, Tensor]
_ATTENTION = 6
_SCORES = 16  # two columns of scores take about as long as this many of a product that fills its vectors


@dataclass
class LayerMatrix:
    """What one layer multiplies with: its edges, and gcn's weights [nnz].

    ``own`` [rows] says which column is the row's own node; ``None``: columns begin with the rows. ``taken`` tells that
    its rows are those of a larger matrix.
    """

    csr: Csr
    weight: Tensor | None = None
    own: Tensor | None = None
    taken: MatrixRows | None = None


class LayeredNetwork(Network):
    """Layers whose rows and columns are prefixes of the batch's nodes (AGL, section 3.3.2, ``adj_list``)."""

    def __init__(self, spec: ModelSpec, training: TrainingSpec, row_parallel: bool = True) -> None:
        super().__init__(spec, training)
        self.row_parallel = row_parallel

    def convolve(self, layer: int, hidden: Tensor, structure: Any) -> Tensor:
        """Apply one convolution to the first ``columns`` rows of ``hidden``; returns [rows, width]."""
        return self._convolve(layer, hidden, structure, "none")

    def layer(self, layer: int, hidden: Tensor, structure: Any) -> Tensor:
        """See ``Network``; bias and activation are fused with what comes before them."""
        return self._convolve(layer, hidden, structure, "none" if self.spec.is_last(layer) else self.spec.activation())

    def _convolve(self, layer: int, hidden: Tensor, structure: Any, activation: str) -> Tensor:
        matrix: LayerMatrix = structure[layer]
        rows, columns = matrix.csr.shape
        hidden = prefix(hidden, columns)
        if attends_first(self.spec, layer, matrix.csr):
            return self._attend_first(layer, hidden, matrix, activation)
        if self._spreads(layer, hidden, matrix):
            return self._spread(layer, hidden, matrix, activation)
        own = rows if matrix.own is None else matrix.own
        return self.receive(layer, *self.send(layer, hidden, own), matrix, activation)

    def _spreads(self, layer: int, hidden: Tensor, matrix: LayerMatrix) -> bool:
        """Whether a layer that aggregates its input sends gradients through a larger matrix."""
        if matrix.taken is None or self.spec.name == "gat" or not self.aggregates_first(layer):
            return False
        return self.row_parallel and hidden.requires_grad and matrix.taken.serve(matrix.csr)

    def _spread(self, layer: int, hidden: Tensor, matrix: LayerMatrix, activation: str) -> Tensor:
        """``send`` and ``receive`` together: what rows aggregate and what they keep have one gradient."""
        assert matrix.taken is not None
        reduce = "sum" if self.spec.name == "gcn" else "mean"
        gathered, own = spmm_with_own(matrix.csr, hidden, matrix.weight, reduce, matrix.taken, self.spec.name == "sage")
        return self._transform(layer, gathered, own, activation)

    def _transform(self, layer: int, gathered: Tensor, own: Tensor | None, activation: str) -> Tensor:
        """Make the output of what was aggregated of a layer's input, and of the rows' own."""
        other = None if own is None else (own, self.parameter(layer, "weight_self"))
        bias = self.parameter(layer, "bias")
        return dense(gathered, self._sent_weight(layer), bias, activation == "relu", other)

    def _attend_first(self, layer: int, hidden: Tensor, matrix: LayerMatrix, activation: str) -> Tensor:
        """Attend over gat's input with one head, ``(alpha H) W`` for ``alpha (H W)``: only rows are transformed."""
        weight, bias = (self.parameter(layer, name) for name in ("weight", "bias"))
        vectors = torch.cat([self.parameter(layer, name) for name in ("att_src", "att_dst")])
        scores = dense(hidden, weight @ vectors.T)
        own = taken(scores[:, 1:], matrix.csr.shape[0] if matrix.own is None else matrix.own)
        gathered = gat(matrix.csr, hidden[:, None], scores[:, :1], own, **self._attention())[:, 0]
        if activation == "none":
            return dense(gathered, weight, bias)
        return bias_activation(dense(gathered, weight), bias, activation, fresh=True)

    def _attention(self) -> dict[str, Any]:
        dropout = self.settings.attention_dropout if self.training else 0.0
        return {"slope": self.spec.slope, "dropout": dropout, "row_parallel": self.row_parallel}

    def send(self, layer: int, hidden: Tensor, rows: int | Tensor) -> tuple[Parts, Parts]:
        """What a layer takes from each node: what it sends along its out-edges, and what its ``rows`` keep.

        ``rows`` are the first so many, or numbers. Every part has one row per node; each is made from that node's own
        embedding alone.
        """
        if self.spec.name == "gat":
            names = ("weight", "att_src", "att_dst")
            z, score_src, score_dst = projection(hidden, *(self.parameter(layer, name) for name in names))
            return {"z": z, "score_src": score_src}, {"score_dst": taken(score_dst, rows)}
        first = self.aggregates_first(layer)
        sent = {"x": hidden if first else dense(hidden, self._sent_weight(layer))}
        if self.spec.name == "gcn":
            return sent, {}
        own = taken(hidden, rows)
        return sent, {"own": own if first else dense(own, self.parameter(layer, "weight_self"))}

    def receive(self, layer: int, sent: Parts, kept: Parts, matrix: LayerMatrix, activation: str = "none") -> Tensor:
        """Make a layer's output [rows, width] of what the columns sent and the rows kept."""
        bias = self.parameter(layer, "bias")
        if self.spec.name == "gat":
            operands = matrix.csr, sent["z"], sent["score_src"], kept["score_dst"]
            options = self._attention()
            if self.spec.is_last(layer) and self.spec.heads_of(layer) > 1:
                return bias_activation(gat(*operands, **options).mean(1), bias, activation, fresh=True)
            return gat_layer(*operands, bias, activation, **options)
        reduce = "sum" if self.spec.name == "gcn" else "mean"
        gathered = spmm(matrix.csr, sent["x"], matrix.weight, reduce, self.row_parallel)
        if not self.aggregates_first(layer):
            return bias_activation(gathered + kept["own"] if kept else gathered, bias, activation, fresh=True)
        return self._transform(layer, gathered, kept.get("own"), activation)

    def aggregates_first(self, layer: int) -> bool:
        """Whether a layer aggregates its input, in the order that its present use needs."""
        return aggregates_first(self.spec, layer, self.training)

    def _sent_weight(self, layer: int) -> Tensor:
        return self.parameter(layer, "weight" if self.spec.name == "gcn" else "weight_neigh")


def prefix(x: Tensor, rows: int) -> Tensor:
    """The first rows; all of them without a slice, whose gradient would be a copy."""
    return x if len(x) == rows else x[:rows]


def taken(x: Tensor, rows: int | Tensor) -> Tensor:
    """The first rows, or those of given numbers."""
    return prefix(x, rows) if isinstance(rows, int) else x.index_select(0, rows)


def aggregates_first(spec: ModelSpec, layer: int, training: bool) -> bool:
    """Whether a layer aggregates its input: unless that takes more columns than aggregating its output does.

    The first layer's input is constant: aggregated first it needs no product backward, so that twice as many pay.
    """
    passes = 2 if training and layer == 0 else 1
    return spec.name != "gat" and spec.width_in(layer) <= passes * spec.width_out(layer)


def attends_first(spec: ModelSpec, layer: int, csr: Csr) -> bool:
    """Whether a gat layer of one head attends over its input: where rows are so few that this takes less time.

    Multiply-adds forward and backward, those of an edge ``_ATTENTION`` times as dear as a dense layer's. Features need
    no gradient of their own, so that a first layer that transforms them first has one product less.
    """
    rows, columns = csr.shape
    if spec.name != "gat" or spec.heads_of(layer) > 1 or rows == columns:
        return False
    wide, out = spec.width_in(layer), spec.width_out(layer)
    passes = 2 if layer == 0 else 3
    attended = 3 * rows * wide * out + passes * columns * wide * _SCORES + _ATTENTION * csr.nnz * wide
    return attended < passes * columns * wide * out + _ATTENTION * csr.nnz * out


class LayeredTrainer(TorchTrainer):
    """What the engines over our kernels share: whole-graph matrices, the fused loss, facts on the order of layers."""

    def network(self, spec: ModelSpec, training: TrainingSpec) -> Network:
        """See ``TorchTrainer``."""
        return LayeredNetwork(spec, training)

    def structure(self, graph: Graph) -> list[LayerMatrix]:
        """The whole graph's matrix, once per layer."""
        return [layer_matrix(graph, self.spec.name)] * self.spec.layers

    def loss(self, logits: Tensor, targets: Targets) -> Tensor:
        """See ``TorchTrainer``; fused with its gradient where labels are many per node."""
        if targets.values.dim() == 1:
            return loss_of(logits, targets)
        return binary_cross_entropy(logits, targets.values, targets.share)

    def layer_csrs(self, structure: Any) -> list[Csr]:
        """See ``TorchTrainer``."""
        return [matrix.csr for matrix in structure]

    def aggregates_first(self, layer: int) -> bool:
        """See ``TorchTrainer``."""
        return aggregates_first(self.spec, layer, not self.forward_only)

    def gathers_input(self, layer: int, csr: Csr) -> bool:
        """See ``TorchTrainer``."""
        return self.aggregates_first(layer) or attends_first(self.spec, layer, csr)


def layer_matrix(graph: Graph, model: str) -> LayerMatrix:
    """The whole graph's matrix."""
    adjacency = adjacency_of(graph, model)
    return LayerMatrix(adjacency.csr, float_tensor(adjacency.weight))


def float_tensor(array: Any) -> Tensor | None:
    """Copy an array to float32, ``None`` stays."""
    return None if array is None else torch.from_numpy(np.array(array, dtype=np.float32))
