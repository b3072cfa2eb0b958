"""The trainer of engines over our kernels: whole-graph matrices, transposes built ahead, steps that are recorded."""

from typing import Any

from backends.base.captured_step import CapturedStep, captured
from backends.base.layered import LayeredNetwork, LayerMatrix, aggregates_first, attends_first, float_tensor
from backends.base.network import Network
from backends.base.optimizer import KernelAdam
from backends.base.sparse_rows import Rows, SparseRows, prefix
from backends.base.trainer import Batch, TorchTrainer
from backends.batches import BatchPlan
from backends.contract import Clock
from backends.kernels.extension import extension
from backends.kernels.operand import build_transpose
from backends.model import ModelSpec, State, TrainingSpec
from datasets.adjacency import adjacency_of
from datasets.csr import Csr
from datasets.features import Features, SparseFeatures
from datasets.graph import Graph

_ENTRY = 32  # operations that take as long as passing over an entry; what is recorded keeps its memory
_CAPTURED = 1 << 28  # operations of a step, beyond which what Python takes cannot be seen


class LayeredTrainer(TorchTrainer):
    """The trainer of engines over our kernels: whole-graph matrices, the fused loss."""

    own_loss = "fused"
    captured: CapturedStep | None = None
    capture_of: Batch | None = None  # the batch that was to be recorded

    @property
    def has_sparse_input(self) -> bool:
        """Whether the network's input is a sparse matrix."""
        return self.sparse_input

    @property
    def sparse_input(self) -> bool:
        """Whether the first layer multiplies sparse features, by the switch ``sparse``."""
        return isinstance(self.graph.features, SparseFeatures) and bool(self.config.on("sparse"))

    def network(self, spec: ModelSpec, training: TrainingSpec) -> Network:
        """The network over our kernels."""
        return LayeredNetwork(spec, training, sparse_input=self.sparse_input)

    def make_optimizer(self) -> Any:
        """Our Adam on the CPU, else torch's optimizer: on a GPU its fused Adam takes one launch."""
        ours = self.training.optimizer == "adam" and self.device.type == "cpu"
        return KernelAdam(self.model, self.training) if ours else super().make_optimizer()

    def input_of(self, features: Features) -> Rows:
        """Features as the network takes them."""
        if self.sparse_input and isinstance(features, SparseFeatures):
            return SparseRows.of(features, self.device, self.dtype)
        return super().input_of(features)

    def structure(self, graph: Graph) -> list[LayerMatrix]:
        """The whole graph's matrix, once per layer."""
        adjacency = adjacency_of(graph, self.spec.name, self.training.dtype)
        weight = float_tensor(adjacency.weight, self.device, self.dtype)
        features = float_tensor(adjacency.edge_features, self.device, self.dtype) if self.spec.edge_width else None
        return [LayerMatrix(adjacency.csr, weight, features=features)] * self.spec.layers

    def prepare(
        self, graph: Graph, spec: ModelSpec, training: TrainingSpec, state: State, plan: BatchPlan, clock: Clock
    ) -> None:
        """Also build the transposes of the matrices that all epochs share; phase ``transpose``."""
        super().prepare(graph, spec, training, state, plan, clock)
        with clock.phase("transpose"):
            for layer, matrix in self.kept_matrices():
                self._build_transpose(layer, matrix)
            if self.plan.full_batch and isinstance(self.full.features, SparseRows):
                rows = prefix(self.full.features, self.full.structure[0].csr.shape[1])
                build_transpose(rows.csr, rows.values)

    def train_batch(self, batch: Batch, clock: Clock) -> float:
        """Take one step; on a small graph, the first one also records the full batch's, which is repeated from then on.

        Recording is part of the first epoch's seconds.
        """
        if self.captured is not None and self.capture_of is batch:
            self.optimizer.zero_grad(set_to_none=True)
            with clock.phase("forward"):
                self.captured.forward()
            with clock.phase("backward"):
                self.captured.backward()
            with clock.phase("step"):
                self.optimizer.step()
            return float(self.captured.loss)
        loss = super().train_batch(batch, clock)
        if self.capture_of is None and batch is getattr(self, "full", None):
            self.capture_of = batch
            self.captured = captured(self.model, lambda: self.loss_of_batch(batch)) if self.is_captured() else None
        return loss

    def is_captured(self) -> bool:
        """Whether the step of the full batch is to be recorded: where what Python takes of its time can be seen."""
        if not self.config.capture or not self.plan.full_batch or self.device.type != "cpu" or extension is None:
            return False
        steps = self.steps(self.full.structure)
        products = sum(2 * csr.nnz * step.width * (1 + step.has_backward) for csr, step in steps)
        products += sum(_ENTRY * csr.shape[1] * step.width for csr, step in steps)
        return products + sum(self.dense_flops_of(self.full.structure)) <= _CAPTURED

    def kept_matrices(self) -> list[tuple[int, LayerMatrix]]:
        """The matrices that all epochs share, with their layers."""
        return list(enumerate(self.full.structure)) if self.plan.full_batch else []

    def _build_transpose(self, layer: int, matrix: LayerMatrix) -> None:
        if not isinstance(self.model, LayeredNetwork) or not self.has_backward_product(layer, matrix.csr):
            return
        matrix = self.model.in_form(matrix)
        origin = matrix.origin if self.model.transposes_origin(layer, matrix) else None
        shared = matrix if origin is None else origin
        averages = self.spec.name == "sage" and origin is None
        build_transpose(shared.csr, shared.weight, mean=self.dtype if averages else None)

    def layer_csrs(self, structure: Any) -> list[Csr]:
        """The matrix of each layer."""
        return [matrix.csr for matrix in structure]

    def aggregates_first(self, layer: int) -> bool:
        """Whether a layer aggregates its input, in training or in inference as the task is."""
        if layer == 0 and self.sparse_input:
            return False
        return aggregates_first(self.spec, layer, not self.forward_only)

    def has_backward_product(self, layer: int, csr: Csr) -> bool:
        """Not where gat attends over features either: the gradients of its scores stay in the order of rows."""
        attends_over_features = layer == 0 and self.spec.name == "gat" and self.gathers_input(layer, csr)
        return not attends_over_features and super().has_backward_product(layer, csr)

    def gathers_input(self, layer: int, csr: Csr) -> bool:
        """Whether a layer aggregates or attends over its input."""
        if layer == 0 and self.sparse_input:
            return False
        return self.aggregates_first(layer) or attends_first(self.spec, layer, csr)

    def facts(self) -> dict[str, Any]:
        """Facts of the trainer, with ``captured``: whether epochs repeat a recorded step."""
        return super().facts() | {"captured": self.captured is not None}
