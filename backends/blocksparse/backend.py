"""Full batches over our kernels: a timed epoch is aggregation, dense layers, the fused loss and the step."""

from typing import Any

from torch import Tensor

from backends.base.inferrer import TorchInferrer
from backends.base.layered import LayerMatrix, float_tensor
from backends.base.layered_trainer import LayeredTrainer
from backends.base.multiplier import TorchMultiplier
from backends.batches import BatchPlan
from backends.blocksparse.adaptive import Forms, adapt, gate_configs
from backends.blocksparse.config import BlocksparseConfig
from backends.blocksparse.reading_order import Rows, reading_orders
from backends.contract import Clock
from backends.kernels import gat, spmm
from backends.kernels.operand import build_transpose
from backends.model import ModelSpec, State, TrainingSpec
from datasets.adjacency import Adjacency
from datasets.graph import Graph


class BlocksparseTrainer(LayeredTrainer):
    """Full-batch training over the whole graph's matrix."""

    def __init__(self, config: BlocksparseConfig) -> None:
        super().__init__(config)
        self.forms: Forms = {}

    def prepare(
        self, graph: Graph, spec: ModelSpec, training: TrainingSpec, state: State, plan: BatchPlan, clock: Clock
    ) -> None:
        """Also try forms of the products; phase ``forms``."""
        super().prepare(graph, spec, training, state, plan, clock)
        with clock.phase("forms"):
            self.try_forms(self.full.structure)

    def try_forms(self, structure: list[LayerMatrix]) -> None:
        """Try forms of the products with a structure's matrix."""
        self.widths = {name: width for name, _, width, _ in self.products(structure)}
        self.forms = adapt(self.config, self.spec.name, self.device, self.dtype, structure[0], self.widths)

    def reading_orders(self) -> dict[str, Rows]:
        """The gathered rows in their order, by the names of the products in panels or tiles."""
        if not any(self.forms.values()):
            return {}
        structure = self.full_batch(self.graph, self.plan.nodes).structure
        return reading_orders(structure[0].csr, self.forms, self.widths)

    def gate_configs(self) -> list[BlocksparseConfig]:
        """The options with which the parity gate is passed."""
        return gate_configs(self.config, [self.forms])

    def scores_edges(self, spec: ModelSpec, plan: BatchPlan) -> bool:
        """One process does; ranks cut no features of edges."""
        return self.config.ranks == 1 and not self.config.replay

    def facts(self) -> dict[str, Any]:
        """Sizes of the products, and which of them run in panels or tiles."""
        return super().facts() | self.forms


class BlocksparseInferrer(TorchInferrer):
    """Scores nodes by the full-graph forward pass."""

    trainer_class = BlocksparseTrainer
    trainer: BlocksparseTrainer

    def prepare_structure(self, plan: BatchPlan) -> None:
        """Build the whole graph's structure and try forms of the products."""
        super().prepare_structure(plan)
        self.trainer.try_forms(self.trainer.full_batch(self.trainer.graph, plan.nodes).structure)

    def reading_orders(self) -> dict[str, Rows]:
        """The gathered rows in their order, by the names of the products in panels or tiles."""
        return self.trainer.reading_orders()

    def gate_configs(self) -> list[BlocksparseConfig]:
        """The options with which the parity gate is passed."""
        return self.trainer.gate_configs()

    def facts(self) -> dict[str, Any]:
        """Sizes of the products, and which of them run in panels or tiles."""
        return super().facts() | self.trainer.forms


class BlocksparseMultiplier(TorchMultiplier):
    """The kernels themselves."""

    def structure(self, adjacency: Adjacency) -> LayerMatrix:
        """The matrix with its transpose, gcn's weights, and the forms of its products."""
        matrix = LayerMatrix(adjacency.csr, float_tensor(adjacency.weight, self.device, self.dtype))
        build_transpose(matrix.csr, matrix.weight, mean=self.dtype if self.spec.name == "sage" else None)
        self.widths = dict.fromkeys(("forward", "backward"), self.width)
        self.forms = adapt(self.config, self.spec.name, self.device, self.dtype, matrix, self.widths)
        return matrix

    def facts(self) -> dict[str, Any]:
        """Sizes of the products, and which of them run in panels or tiles."""
        return super().facts() | self.forms

    def reading_orders(self) -> dict[str, Rows]:
        """The gathered rows in their order, by the names of the products in panels or tiles."""
        return reading_orders(self.csr, self.forms, self.widths)

    def gate_configs(self) -> list[BlocksparseConfig]:
        """The options with which the parity gate is passed."""
        return gate_configs(self.config, [self.forms])

    def aggregate(self, structure: LayerMatrix, x: Tensor) -> Tensor:
        """Weighted sum or mean by the kernel ``spmm``."""
        return spmm(structure.csr, x, structure.weight, "mean" if self.spec.name == "sage" else "sum")

    def attend(self, structure: LayerMatrix, operands: dict[str, Tensor]) -> Tensor:
        """Attention by the fused kernel ``gat``."""
        return gat(structure.csr, operands["x"], operands["score_src"], operands["score_dst"], slope=self.spec.slope)
