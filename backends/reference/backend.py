"""Plain PyTorch: sparse CSR products or scatters, as a user without a graph library writes them."""

from typing import Any

import torch
from torch import Tensor

from backends.base.inferrer import TorchInferrer
from backends.base.multiplier import TorchMultiplier
from backends.base.network import Network
from backends.base.sparse_tensor import sparse_of
from backends.base.trainer import TorchTrainer
from backends.batches import BatchPlan
from backends.model import ModelSpec, TrainingSpec
from backends.reference.attention import Attention, ScatterAttention, attention_of
from backends.reference.products import Matrix, matrix_of
from backends.reference.sparse_input import CachedRows
from datasets.adjacency import Adjacency, adjacency_of
from datasets.csr import Csr
from datasets.features import Features
from datasets.graph import Graph


class PlainNetwork(Network):
    """The models in torch operations, aggregating where a layer is narrower."""

    sparse_input = False

    def convolve(self, layer: int, hidden: Tensor, structure: Any) -> Tensor:
        """Apply one convolution without its activation."""
        if self.spec.name == "gat":
            return self._gat(layer, hidden, structure)
        if self.spec.name == "gcn":
            return self._propagate(layer, hidden, "weight", structure) + self.parameter(layer, "bias")
        neighbours = self._propagate(layer, hidden, "weight_neigh", structure)
        bias, weight = self.parameter(layer, "bias"), self.parameter(layer, "weight_self")
        own = hidden @ weight + bias if self._is_sparse(layer) else torch.addmm(bias, hidden, weight)
        return own + neighbours

    def propagate(self, x: Tensor, structure: Any) -> Tensor:
        """Multiply by the matrix."""
        out: Tensor = structure.multiply(x)
        return out

    def _propagate(self, layer: int, hidden: Tensor, name: str, matrix: Matrix) -> Tensor:
        weight = self.parameter(layer, name)
        if not self._is_sparse(layer) and aggregates_first(self.spec, layer, self.training):
            return matrix.multiply(hidden) @ weight
        return matrix.multiply(hidden @ weight)

    def drop(self, hidden: Any) -> Any:
        """Also drop values of rows that multiply by themselves."""
        return hidden.dropped(self.settings.dropout) if isinstance(hidden, CachedRows) else super().drop(hidden)

    def _is_sparse(self, layer: int) -> bool:
        """Whether a layer's input is sparse: it is transformed first, as its aggregate would be dense."""
        return layer == 0 and self.sparse_input

    def _gat(self, layer: int, hidden: Tensor, edges: Attention) -> Tensor:
        z = (hidden @ self.parameter(layer, "weight")).view(len(hidden), self.spec.heads_of(layer), -1)
        scores = [(z * self.parameter(layer, name)).sum(-1) for name in ("att_src", "att_dst")]
        dropout = self.settings.attention_dropout if self.training else 0.0
        if self.spec.edge_width:
            assert isinstance(edges, ScatterAttention) and edges.features is not None
            rows = (edges.features @ self.parameter(layer, "weight_edge")).view(-1, *z.shape[1:])
            of_edges = (rows * self.parameter(layer, "att_edge")).sum(-1)
            out = edges.attend(z, *scores, self.spec.slope, dropout, of_edges)
        else:
            out = edges.attend(z, *scores, self.spec.slope, dropout)
        return (out.mean(1) if self.spec.is_last(layer) else out.flatten(1)) + self.parameter(layer, "bias")


def aggregates_first(spec: ModelSpec, layer: int, training: bool) -> bool:
    """Whether a layer aggregates its input: where that is narrower than its output.

    In training the first layer does so up to twice that width, because its constant input needs no backward product.
    """
    width, out = spec.width_in(layer), spec.width_out(layer)
    return spec.name != "gat" and (width <= 2 * out if training and layer == 0 else width < out)


def structure_of(adjacency: Adjacency, model: str, variant: str, device: torch.device) -> Matrix | Attention:
    """Build the edges in the form of the variant: for gat what attends, for other models what multiplies."""
    if model == "gat":
        attention = attention_of(adjacency.csr, variant, device)
        if isinstance(attention, ScatterAttention) and adjacency.edge_features is not None:
            attention.features = torch.from_numpy(adjacency.edge_features).to(device)
        return attention
    return matrix_of(adjacency, variant, device)


class ReferenceTrainer(TorchTrainer):
    """Full-batch training in plain torch."""

    def network(self, spec: ModelSpec, training: TrainingSpec) -> Network:
        """The network in torch operations."""
        network = PlainNetwork(spec, training)
        network.sparse_input = self.config.input != "dense"
        return network

    def input_of(self, features: Features) -> Any:
        """Features in the form of ``backend.input``."""
        if self.config.input == "cached":
            return CachedRows.of(sparse_of(features, self.config.name), self.device)
        return super().input_of(features)

    def structure(self, graph: Graph) -> Matrix | Attention:
        """The whole graph in the form of the variant."""
        model = self.spec.name
        return structure_of(adjacency_of(graph, model), model, self.config.variant_for(model), self.device)

    def scores_edges(self, spec: ModelSpec, plan: BatchPlan) -> bool:
        """The scatters do; the backward pass written for products has no such scores."""
        variant: str = self.config.variant_for(spec.name)
        return variant == "scatter"

    def facts(self) -> dict[str, Any]:
        """Sizes of products, and the variant that ran."""
        return super().facts() | {"variant": self.config.variant_for(self.spec.name)}

    def layer_csrs(self, structure: Any) -> list[Csr]:
        """The whole graph's matrix, for each layer."""
        return [structure.csr] * self.spec.layers

    def aggregates_first(self, layer: int) -> bool:
        """Whether a layer aggregates its input, in training or in inference as the task is."""
        if layer == 0 and self.config.input != "dense":
            return False
        return aggregates_first(self.spec, layer, not self.forward_only)


class ReferenceInferrer(TorchInferrer):
    """Scores nodes by the full-graph forward pass."""

    trainer_class = ReferenceTrainer


class ReferenceMultiplier(TorchMultiplier):
    """A sparse product of torch or SciPy, or scatters; attention by scatters or by torch's products."""

    def structure(self, adjacency: Adjacency) -> Matrix | Attention:
        """The edges in the form of the variant."""
        return structure_of(adjacency, self.spec.name, self.config.variant_for(self.spec.name), self.device)

    def aggregate(self, structure: Matrix, x: Tensor) -> Tensor:
        """Weighted sum or mean by a sparse product."""
        return structure.multiply(x)

    def attend(self, structure: Attention, operands: dict[str, Tensor]) -> Tensor:
        """Softmax over in-edges and the weighted sum, in the form of the variant."""
        return structure.attend(operands["x"], operands["score_src"], operands["score_dst"], self.spec.slope)

    def facts(self) -> dict[str, Any]:
        """Sizes of the products, and the variant that ran."""
        return super().facts() | {"variant": self.config.variant_for(self.spec.name)}
