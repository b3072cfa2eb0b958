"""The models over our kernels: one matrix per layer, aggregating at the narrower of a layer's two widths."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from backends.kernels import binary_cross_entropy, gat, spmm
from backends.model import ModelSpec, TrainingSpec
from backends.training import Network, Targets, TorchTrainer, loss_of
from datasets.adjacency import adjacency_of
from datasets.csr import Csr
from datasets.graph import Graph

Parts = dict[str, Tensor]


@dataclass
class LayerMatrix:
    """What one layer multiplies with: its edges, and gcn's weights [nnz]."""

    csr: Csr
    weight: Tensor | None = None


class LayeredNetwork(Network):
    """Layers whose rows and columns are prefixes of the batch's nodes (AGL, section 3.3.2, ``adj_list``)."""

    def __init__(self, spec: ModelSpec, training: TrainingSpec, row_parallel: bool = True) -> None:
        super().__init__(spec, training)
        self.row_parallel = row_parallel

    def convolve(self, layer: int, hidden: Tensor, structure: Any) -> Tensor:
        """Apply one convolution to the first ``columns`` rows of ``hidden``; returns [rows, width]."""
        matrix: LayerMatrix = structure[layer]
        rows, columns = matrix.csr.shape
        return self.receive(layer, *self.send(layer, hidden[:columns], rows), matrix)

    def send(self, layer: int, hidden: Tensor, rows: int) -> tuple[Parts, Parts]:
        """What a layer takes from each node: what it sends along its out-edges, and what its first ``rows`` keep.

        Every part has one row per node; each is made from that node's own embedding alone.
        """
        if self.spec.name == "gat":
            z = (hidden @ self.parameter(layer, "weight")).view(len(hidden), self.spec.heads_of(layer), -1)
            score_src = (z * self.parameter(layer, "att_src")).sum(-1)
            score_dst = (z[:rows] * self.parameter(layer, "att_dst")).sum(-1)
            return {"z": z, "score_src": score_src}, {"score_dst": score_dst}
        weight = self._sent_weight(layer)
        sent = {"x": hidden if _aggregates_input(weight) else hidden @ weight}
        if self.spec.name == "gcn":
            return sent, {}
        own = torch.addmm(self.parameter(layer, "bias"), hidden[:rows], self.parameter(layer, "weight_self"))
        return sent, {"own": own}

    def receive(self, layer: int, sent: Parts, kept: Parts, matrix: LayerMatrix) -> Tensor:
        """Make a layer's output [rows, width] of what the columns sent and the rows kept."""
        if self.spec.name == "gat":
            dropout = self.settings.attention_dropout if self.training else 0.0
            scores = sent["score_src"], kept["score_dst"]
            out = gat(matrix.csr, sent["z"], *scores, self.spec.slope, dropout, self.row_parallel)
            joined = out.mean(1) if self.spec.is_last(layer) else out.flatten(1)
            return joined + self.parameter(layer, "bias")
        weight = self._sent_weight(layer)
        reduce = "sum" if self.spec.name == "gcn" else "mean"
        gathered = spmm(matrix.csr, sent["x"], matrix.weight, reduce, self.row_parallel)
        neighbours = gathered @ weight if _aggregates_input(weight) else gathered
        return neighbours + (self.parameter(layer, "bias") if self.spec.name == "gcn" else kept["own"])

    def _sent_weight(self, layer: int) -> Tensor:
        return self.parameter(layer, "weight" if self.spec.name == "gcn" else "weight_neigh")


def _aggregates_input(weight: Tensor) -> bool:
    """Whether a layer aggregates before it transforms: in the order that aggregates fewer columns."""
    return weight.shape[0] < weight.shape[1]


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
        return self.spec.name != "gat" and self.spec.width_in(layer) < self.spec.width_out(layer)


def layer_matrix(graph: Graph, model: str) -> LayerMatrix:
    """The whole graph's matrix."""
    adjacency = adjacency_of(graph, model)
    return LayerMatrix(adjacency.csr, float_tensor(adjacency.weight))


def float_tensor(array: Any) -> Tensor | None:
    """Copy an array to float32, ``None`` stays."""
    return None if array is None else torch.from_numpy(np.array(array, dtype=np.float32))
