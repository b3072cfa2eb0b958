"""Plain PyTorch: sparse CSR products or scatters, as a user without a graph library writes them."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from backends.model import ModelSpec, TrainingSpec
from backends.training import Network, TorchInferrer, TorchTrainer
from datasets.adjacency import adjacency_of
from datasets.csr import Csr
from datasets.graph import Graph


@dataclass
class Matrix:
    """The edges as a sparse tensor (gcn and sage: weighted) and as a list."""

    csr: Csr
    sparse: Tensor
    weight: Tensor
    source: Tensor
    destination: Tensor


class PlainNetwork(Network):
    """The models in torch operations, transforming before aggregating where that is narrower."""

    variant = "csr"

    def convolve(self, layer: int, hidden: Tensor, structure: Any) -> Tensor:
        """See ``Network``."""
        if self.spec.name == "gat":
            return self._gat(layer, hidden, structure)
        if self.spec.name == "gcn":
            return self._propagate(hidden, self.parameter(layer, "weight"), structure) + self.parameter(layer, "bias")
        neighbours = self._propagate(hidden, self.parameter(layer, "weight_neigh"), structure)
        return hidden @ self.parameter(layer, "weight_self") + neighbours + self.parameter(layer, "bias")

    def _propagate(self, hidden: Tensor, weight: Tensor, matrix: Matrix) -> Tensor:
        if weight.shape[0] < weight.shape[1]:
            return self._aggregate(hidden, matrix) @ weight
        return self._aggregate(hidden @ weight, matrix)

    def _aggregate(self, x: Tensor, matrix: Matrix) -> Tensor:
        if self.variant == "csr":
            return torch.sparse.mm(matrix.sparse, x)
        messages = matrix.weight[:, None] * x[matrix.source]
        return x.new_zeros((matrix.csr.shape[0], x.shape[1])).index_add(0, matrix.destination, messages)

    def _gat(self, layer: int, hidden: Tensor, matrix: Matrix) -> Tensor:
        heads, rows = self.spec.heads_of(layer), matrix.csr.shape[0]
        z = (hidden @ self.parameter(layer, "weight")).view(len(hidden), heads, -1)
        score = (z * self.parameter(layer, "att_src")).sum(-1)[matrix.source]
        score = score + (z * self.parameter(layer, "att_dst")).sum(-1)[matrix.destination]
        score = functional.leaky_relu(score, self.spec.slope)
        row = matrix.destination[:, None].expand_as(score)
        largest = score.new_full((rows, heads), -torch.inf).scatter_reduce(0, row, score.detach(), "amax")
        exponent = torch.exp(score - largest[matrix.destination])
        total = score.new_zeros((rows, heads)).index_add(0, matrix.destination, exponent)
        alpha = functional.dropout(exponent / total[matrix.destination], self.settings.attention_dropout, self.training)
        messages = alpha[:, :, None] * z[matrix.source]
        out = z.new_zeros((rows, *z.shape[1:])).index_add(0, matrix.destination, messages)
        return (out.mean(1) if self.spec.is_last(layer) else out.flatten(1)) + self.parameter(layer, "bias")


class ReferenceTrainer(TorchTrainer):
    """Full-batch training in plain torch."""

    def network(self, spec: ModelSpec, training: TrainingSpec) -> Network:
        """See ``TorchTrainer``."""
        network = PlainNetwork(spec, training)
        network.variant = self.config.variant
        return network

    def structure(self, graph: Graph) -> Matrix:
        """See ``TorchTrainer``."""
        adjacency = adjacency_of(graph, self.spec.name)
        csr = adjacency.csr
        weight = adjacency.weight
        if weight is None:
            weight = (1.0 / np.maximum(csr.in_degrees, 1))[csr.destinations].astype(np.float32)
        values = torch.from_numpy(np.array(weight, dtype=np.float32))
        indptr, source, destination = (
            torch.from_numpy(np.array(array, dtype=np.int64)) for array in (csr.indptr, csr.indices, csr.destinations)
        )
        return Matrix(csr, torch.sparse_csr_tensor(indptr, source, values, csr.shape), values, source, destination)

    def layer_csrs(self, structure: Any) -> list[Csr]:
        """See ``TorchTrainer``."""
        return [structure.csr] * self.spec.layers

    def aggregates_first(self, layer: int) -> bool:
        """See ``TorchTrainer``."""
        return self.spec.name != "gat" and self.spec.width_in(layer) < self.spec.width_out(layer)


class ReferenceInferrer(TorchInferrer):
    """Scores nodes by the full-graph forward pass."""

    trainer_class = ReferenceTrainer
