"""Plain PyTorch: sparse CSR products or scatters, as a user without a graph library writes them."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from backends.model import ModelSpec, TrainingSpec
from backends.multiplying import TorchMultiplier
from backends.training import Network, TorchInferrer, TorchTrainer
from datasets.adjacency import Adjacency, adjacency_of
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
        return scatter(matrix, matrix.weight, x)

    def _gat(self, layer: int, hidden: Tensor, matrix: Matrix) -> Tensor:
        z = (hidden @ self.parameter(layer, "weight")).view(len(hidden), self.spec.heads_of(layer), -1)
        scores = [(z * self.parameter(layer, name)).sum(-1) for name in ("att_src", "att_dst")]
        alpha = attention(matrix, *scores, self.spec.slope)
        alpha = functional.dropout(alpha, self.settings.attention_dropout, self.training)
        out = scatter(matrix, alpha, z)
        return (out.mean(1) if self.spec.is_last(layer) else out.flatten(1)) + self.parameter(layer, "bias")


def attention(matrix: Matrix, score_src: Tensor, score_dst: Tensor, slope: float) -> Tensor:
    """Softmax of the leaky scores over in-edges, [nnz, heads]."""
    score = functional.leaky_relu(score_src[matrix.source] + score_dst[matrix.destination], slope)
    row = matrix.destination[:, None].expand_as(score)
    start = score.new_full((matrix.csr.shape[0], score.shape[1]), -torch.inf)
    largest = start.scatter_reduce(0, row, score.detach(), "amax")
    exponent = torch.exp(score - largest[matrix.destination])
    total = score.new_zeros(start.shape).index_add(0, matrix.destination, exponent)
    return exponent / total[matrix.destination]


def scatter(matrix: Matrix, alpha: Tensor, z: Tensor) -> Tensor:
    """Gather a message per edge, weigh it, add it to its destination."""
    messages = alpha.unsqueeze(-1) * z[matrix.source]
    return z.new_zeros((matrix.csr.shape[0], *z.shape[1:])).index_add(0, matrix.destination, messages)


def matrix_of(adjacency: Adjacency) -> Matrix:
    """Build the sparse tensor and the edge list of an adjacency; sage's mean becomes weights of 1 / in-degree."""
    csr, weight = adjacency.csr, adjacency.weight
    if weight is None:
        weight = (1.0 / np.maximum(csr.in_degrees, 1))[csr.destinations].astype(np.float32)
    values = torch.from_numpy(np.array(weight, dtype=np.float32))
    indptr, source, destination = (
        torch.from_numpy(np.array(array, dtype=np.int64)) for array in (csr.indptr, csr.indices, csr.destinations)
    )
    return Matrix(csr, torch.sparse_csr_tensor(indptr, source, values, csr.shape), values, source, destination)


class ReferenceTrainer(TorchTrainer):
    """Full-batch training in plain torch."""

    def network(self, spec: ModelSpec, training: TrainingSpec) -> Network:
        """See ``TorchTrainer``."""
        network = PlainNetwork(spec, training)
        network.variant = self.config.variant
        return network

    def structure(self, graph: Graph) -> Matrix:
        """See ``TorchTrainer``."""
        return matrix_of(adjacency_of(graph, self.spec.name))

    def layer_csrs(self, structure: Any) -> list[Csr]:
        """See ``TorchTrainer``."""
        return [structure.csr] * self.spec.layers

    def aggregates_first(self, layer: int) -> bool:
        """See ``TorchTrainer``."""
        return self.spec.name != "gat" and self.spec.width_in(layer) < self.spec.width_out(layer)


class ReferenceInferrer(TorchInferrer):
    """Scores nodes by the full-graph forward pass."""

    trainer_class = ReferenceTrainer


class ReferenceMultiplier(TorchMultiplier):
    """``torch.sparse.mm`` or scatters; attention always scatters."""

    def structure(self, adjacency: Adjacency) -> Matrix:
        """See ``TorchMultiplier``."""
        return matrix_of(adjacency)

    def aggregate(self, structure: Matrix, x: Tensor) -> Tensor:
        """See ``TorchMultiplier``."""
        return (
            torch.sparse.mm(structure.sparse, x)
            if self.config.variant == "csr"
            else scatter(structure, structure.weight, x)
        )

    def attend(self, structure: Matrix, operands: dict[str, Tensor]) -> Tensor:
        """See ``TorchMultiplier``."""
        alpha = attention(structure, operands["score_src"], operands["score_dst"], self.spec.slope)
        return scatter(structure, alpha, operands["x"])
