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
        hidden = hidden[: matrix.csr.shape[1]]
        return {"gcn": self._gcn, "sage": self._sage, "gat": self._gat}[self.spec.name](layer, hidden, matrix)

    def _aggregate(self, hidden: Tensor, weight: Tensor, matrix: LayerMatrix, reduce: str) -> Tensor:
        """Aggregate and transform, in the order that aggregates fewer columns."""
        if weight.shape[0] < weight.shape[1]:
            return spmm(matrix.csr, hidden, matrix.weight, reduce, self.row_parallel) @ weight
        return spmm(matrix.csr, hidden @ weight, matrix.weight, reduce, self.row_parallel)

    def _gcn(self, layer: int, hidden: Tensor, matrix: LayerMatrix) -> Tensor:
        return self._aggregate(hidden, self.parameter(layer, "weight"), matrix, "sum") + self.parameter(layer, "bias")

    def _sage(self, layer: int, hidden: Tensor, matrix: LayerMatrix) -> Tensor:
        neighbours = self._aggregate(hidden, self.parameter(layer, "weight_neigh"), matrix, "mean")
        own = torch.addmm(
            self.parameter(layer, "bias"), hidden[: matrix.csr.shape[0]], self.parameter(layer, "weight_self")
        )
        return own + neighbours

    def _gat(self, layer: int, hidden: Tensor, matrix: LayerMatrix) -> Tensor:
        heads = self.spec.heads_of(layer)
        z = (hidden @ self.parameter(layer, "weight")).view(len(hidden), heads, -1)
        score_src = (z * self.parameter(layer, "att_src")).sum(-1)
        score_dst = (z[: matrix.csr.shape[0]] * self.parameter(layer, "att_dst")).sum(-1)
        dropout = self.settings.attention_dropout if self.training else 0.0
        out = gat(matrix.csr, z, score_src, score_dst, self.spec.slope, dropout, self.row_parallel)
        joined = out.mean(1) if self.spec.is_last(layer) else out.flatten(1)
        return joined + self.parameter(layer, "bias")


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
