"""Full batches over our kernels: a timed epoch is aggregation, dense layers, the fused loss and the step."""

from torch import Tensor

from backends.base.inferrer import TorchInferrer
from backends.base.layered import LayeredTrainer, LayerMatrix, float_tensor
from backends.base.multiplier import TorchMultiplier
from backends.kernels import gat, spmm
from backends.kernels.operand import build_transpose
from datasets.adjacency import Adjacency


class BlocksparseTrainer(LayeredTrainer):
    """Full-batch training over the whole graph's matrix."""


class BlocksparseInferrer(TorchInferrer):
    """Scores nodes by the full-graph forward pass."""

    trainer_class = BlocksparseTrainer


class BlocksparseMultiplier(TorchMultiplier):
    """The kernels themselves."""

    def structure(self, adjacency: Adjacency) -> LayerMatrix:
        """The matrix with its transpose, and gcn's weights."""
        matrix = LayerMatrix(adjacency.csr, float_tensor(adjacency.weight, self.device, self.dtype))
        build_transpose(matrix.csr, matrix.weight, mean=self.spec.name == "sage")
        return matrix

    def aggregate(self, structure: LayerMatrix, x: Tensor) -> Tensor:
        """Weighted sum or mean by the kernel ``spmm``."""
        return spmm(structure.csr, x, structure.weight, "mean" if self.spec.name == "sage" else "sum")

    def attend(self, structure: LayerMatrix, operands: dict[str, Tensor]) -> Tensor:
        """Attention by the fused kernel ``gat``."""
        return gat(structure.csr, operands["x"], operands["score_src"], operands["score_dst"], slope=self.spec.slope)
