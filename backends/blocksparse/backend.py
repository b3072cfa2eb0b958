"""Full batches over our kernels: a timed epoch is aggregation, dense layers, the fused loss and the step."""

from typing import Any

import torch
from torch import Tensor

from backends.base.inferrer import TorchInferrer
from backends.base.layered import LayeredTrainer, LayerMatrix, float_tensor
from backends.base.multiplier import TorchMultiplier
from backends.batches import BatchPlan
from backends.blocksparse.config import BlocksparseConfig
from backends.contract import Clock
from backends.kernels import gat, spmm
from backends.kernels.operand import build_transpose
from backends.kernels.panels import PanelChoice, choose_panels
from backends.model import ModelSpec, State, TrainingSpec
from datasets.adjacency import Adjacency
from datasets.graph import Graph


class BlocksparseTrainer(LayeredTrainer):
    """Full-batch training over the whole graph's matrix."""

    def __init__(self, config: BlocksparseConfig) -> None:
        super().__init__(config)
        self.panels: dict[str, int] = {}

    def prepare(
        self, graph: Graph, spec: ModelSpec, training: TrainingSpec, state: State, plan: BatchPlan, clock: Clock
    ) -> None:
        """Also try column panels; phase ``panels``."""
        super().prepare(graph, spec, training, state, plan, clock)
        with clock.phase("panels"):
            self.choose_panels()

    def choose_panels(self) -> None:
        """Cut the tables of this task's products into column panels where these are faster."""
        matrix: LayerMatrix = self.full.structure[0]
        products = [] if self.spec.name == "gat" else self.spmm_operands()
        tried = panels_of(self.config, self.device, matrix, products)
        self.panels = {name: choice.panels for name, choice in tried.items()}

    def facts(self) -> dict[str, Any]:
        """Sizes of the products, and the number of panels of each whose table was cut."""
        return super().facts() | {"panels": self.panels}


def panels_of(
    config: BlocksparseConfig, device: torch.device, matrix: LayerMatrix, products: list[dict[str, Any]]
) -> dict[str, PanelChoice]:
    """Try panels for products with a matrix, by their names; one width of a direction is tried once."""
    if not config.on("panels") or device.type != "cpu":
        return {}
    tried: dict[tuple[int, bool], PanelChoice] = {}
    choices = {}
    for one in products:
        key = one["width"], one["name"].endswith("backward")
        if key not in tried:
            tried[key] = choose_panels(matrix.csr, key[0], matrix.weight, key[1])
        choices[one["name"]] = tried[key]
    return {name: choice for name, choice in choices.items() if choice.panels > 1}


class BlocksparseInferrer(TorchInferrer):
    """Scores nodes by the full-graph forward pass."""

    trainer_class = BlocksparseTrainer

    def prepare_structure(self, plan: BatchPlan) -> None:
        """Build the whole graph's structure and try column panels."""
        super().prepare_structure(plan)
        trainer = self.trainer
        batch = trainer.full_batch(trainer.graph, trainer.plan.nodes)
        if trainer.spec.name != "gat":
            panels_of(trainer.config, trainer.device, batch.structure[0], self.spmm_operands())


class BlocksparseMultiplier(TorchMultiplier):
    """The kernels themselves."""

    def structure(self, adjacency: Adjacency) -> LayerMatrix:
        """The matrix with its transpose, and gcn's weights."""
        matrix = LayerMatrix(adjacency.csr, float_tensor(adjacency.weight, self.device, self.dtype))
        build_transpose(matrix.csr, matrix.weight, mean=self.spec.name == "sage")
        products = [{"name": name, "width": self.spec.hidden} for name in ("forward", "backward")]
        self.panels = {}
        if self.spec.name != "gat":
            tried = panels_of(self.config, self.device, matrix, products)
            self.panels = {name: choice.panels for name, choice in tried.items()}
        return matrix

    def facts(self) -> dict[str, Any]:
        """Sizes of the products, and the number of panels of each whose table was cut."""
        return super().facts() | {"panels": self.panels}

    def aggregate(self, structure: LayerMatrix, x: Tensor) -> Tensor:
        """Weighted sum or mean by the kernel ``spmm``."""
        return spmm(structure.csr, x, structure.weight, "mean" if self.spec.name == "sage" else "sum")

    def attend(self, structure: LayerMatrix, operands: dict[str, Tensor]) -> Tensor:
        """Attention by the fused kernel ``gat``."""
        return gat(structure.csr, operands["x"], operands["score_src"], operands["score_dst"], slope=self.spec.slope)
