"""Full batches over our kernels: what a timed epoch holds is aggregation, dense layers, the fused loss and the step."""

from typing import Any

from torch import Tensor

from backends.kernels import gat, spmm
from backends.layered import LayeredNetwork, LayerMatrix, float_tensor, fused_loss, layer_matrix
from backends.model import ModelSpec, TrainingSpec
from backends.multiplying import TorchMultiplier
from backends.training import Network, Targets, TorchInferrer, TorchTrainer
from datasets.adjacency import Adjacency
from datasets.csr import Csr
from datasets.graph import Graph


class BlocksparseTrainer(TorchTrainer):
    """Full-batch training over the whole graph's matrix."""

    def network(self, spec: ModelSpec, training: TrainingSpec) -> Network:
        """See ``TorchTrainer``."""
        return LayeredNetwork(spec, training)

    def structure(self, graph: Graph) -> list[LayerMatrix]:
        """The whole graph's matrix, once per layer."""
        return [layer_matrix(graph, self.spec.name)] * self.spec.layers

    def loss(self, logits: Tensor, targets: Targets) -> Tensor:
        """See ``TorchTrainer``."""
        return fused_loss(logits, targets)

    def layer_csrs(self, structure: Any) -> list[Csr]:
        """See ``TorchTrainer``."""
        return [matrix.csr for matrix in structure]

    def aggregates_first(self, layer: int) -> bool:
        """See ``TorchTrainer``."""
        return self.spec.name != "gat" and self.spec.width_in(layer) < self.spec.width_out(layer)


class BlocksparseInferrer(TorchInferrer):
    """Scores nodes by the full-graph forward pass."""

    trainer_class = BlocksparseTrainer


class BlocksparseMultiplier(TorchMultiplier):
    """The kernels themselves."""

    def structure(self, adjacency: Adjacency) -> LayerMatrix:
        """See ``TorchMultiplier``."""
        return LayerMatrix(adjacency.csr, float_tensor(adjacency.weight))

    def aggregate(self, structure: LayerMatrix, x: Tensor) -> Tensor:
        """See ``TorchMultiplier``."""
        return spmm(structure.csr, x, structure.weight, "mean" if self.spec.name == "sage" else "sum")

    def attend(self, structure: LayerMatrix, operands: dict[str, Tensor]) -> Tensor:
        """See ``TorchMultiplier``."""
        return gat(structure.csr, operands["x"], operands["score_src"], operands["score_dst"], self.spec.slope)
