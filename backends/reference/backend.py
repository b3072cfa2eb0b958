"""Plain PyTorch: sparse CSR products or scatters, as a user without a graph library writes them."""

from typing import Any

from torch import Tensor
from torch.nn import functional

from backends.base.inferrer import TorchInferrer
from backends.base.multiplier import TorchMultiplier
from backends.base.network import Network
from backends.base.trainer import TorchTrainer
from backends.model import ModelSpec, TrainingSpec
from backends.reference.products import EdgeList, Matrix, attention, edge_list, matrix_of, scatter
from datasets.adjacency import Adjacency, adjacency_of
from datasets.csr import Csr
from datasets.graph import Graph


class PlainNetwork(Network):
    """The models in torch operations, transforming before aggregating where that is narrower."""

    def convolve(self, layer: int, hidden: Tensor, structure: Any) -> Tensor:
        """Apply one convolution without its activation."""
        if self.spec.name == "gat":
            return self._gat(layer, hidden, structure)
        if self.spec.name == "gcn":
            return self._propagate(hidden, self.parameter(layer, "weight"), structure) + self.parameter(layer, "bias")
        neighbours = self._propagate(hidden, self.parameter(layer, "weight_neigh"), structure)
        return hidden @ self.parameter(layer, "weight_self") + neighbours + self.parameter(layer, "bias")

    def _propagate(self, hidden: Tensor, weight: Tensor, matrix: Matrix) -> Tensor:
        if weight.shape[0] < weight.shape[1]:
            return matrix.multiply(hidden) @ weight
        return matrix.multiply(hidden @ weight)

    def _gat(self, layer: int, hidden: Tensor, edges: EdgeList) -> Tensor:
        z = (hidden @ self.parameter(layer, "weight")).view(len(hidden), self.spec.heads_of(layer), -1)
        scores = [(z * self.parameter(layer, name)).sum(-1) for name in ("att_src", "att_dst")]
        alpha = attention(edges, *scores, self.spec.slope)
        alpha = functional.dropout(alpha, self.settings.attention_dropout, self.training)
        out = scatter(edges, alpha, z)
        return (out.mean(1) if self.spec.is_last(layer) else out.flatten(1)) + self.parameter(layer, "bias")


def structure_of(adjacency: Adjacency, model: str, variant: str) -> Matrix | EdgeList:
    """Build the list of edges for gat, for other models a matrix in the form of the variant."""
    return edge_list(adjacency.csr) if model == "gat" else matrix_of(adjacency, variant)


class ReferenceTrainer(TorchTrainer):
    """Full-batch training in plain torch."""

    def network(self, spec: ModelSpec, training: TrainingSpec) -> Network:
        """The network in torch operations."""
        return PlainNetwork(spec, training)

    def structure(self, graph: Graph) -> Matrix | EdgeList:
        """The whole graph in the form of the variant."""
        model = self.spec.name
        return structure_of(adjacency_of(graph, model), model, self.config.variant_for(model))

    def facts(self) -> dict[str, Any]:
        """Sizes of products, and the variant that ran."""
        return super().facts() | {"variant": self.config.variant_for(self.spec.name)}

    def layer_csrs(self, structure: Any) -> list[Csr]:
        """The whole graph's matrix, for each layer."""
        return [structure.csr] * self.spec.layers

    def aggregates_first(self, layer: int) -> bool:
        """Whether a layer aggregates its input, which it does where that is narrower than its output."""
        return self.spec.name != "gat" and self.spec.width_in(layer) < self.spec.width_out(layer)


class ReferenceInferrer(TorchInferrer):
    """Scores nodes by the full-graph forward pass."""

    trainer_class = ReferenceTrainer


class ReferenceMultiplier(TorchMultiplier):
    """A sparse product of torch or SciPy, or scatters; attention always scatters."""

    def structure(self, adjacency: Adjacency) -> Matrix | EdgeList:
        """The edges in the form of the variant."""
        return structure_of(adjacency, self.spec.name, self.config.variant_for(self.spec.name))

    def aggregate(self, structure: Matrix, x: Tensor) -> Tensor:
        """Weighted sum or mean by a sparse product."""
        return structure.multiply(x)

    def attend(self, structure: EdgeList, operands: dict[str, Tensor]) -> Tensor:
        """Softmax over in-edges, then a scatter of weighted messages."""
        alpha = attention(structure, operands["score_src"], operands["score_dst"], self.spec.slope)
        return scatter(structure, alpha, operands["x"])

    def facts(self) -> dict[str, Any]:
        """Sizes of the products, and the variant that ran."""
        return super().facts() | {"variant": self.config.variant_for(self.spec.name)}
