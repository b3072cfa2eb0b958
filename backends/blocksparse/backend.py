"""Full batches over our kernels: what a timed epoch holds is aggregation, dense layers, the fused loss and the step."""

from torch import Tensor

from backends.base.inferrer import TorchInferrer
from backends.base.layered import LayeredTrainer, LayerMatrix, float_tensor
from backends.base.multiplier import TorchMultiplier
from backends.kernels import gat, spmm
from datasets.adjacency import Adjacency


class BlocksparseTrainer(LayeredTrainer):
    """Full-batch training over the whole graph's matrix."""


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
        return gat(structure.csr, operands["x"], operands["score_src"], operands["score_dst"], slope=self.spec.slope)
