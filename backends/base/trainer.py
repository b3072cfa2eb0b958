"""The trainer of every engine on torch: batches, the loop of an epoch, prediction."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from backends.base.facts import StepSizes, dense_flops, epoch_facts, propagation_flops, usual_step
from backends.base.loss import Targets, loss_of, targets_of
from backends.base.network import Network
from backends.base.optimizer import optimizer_of
from backends.base.propagation import Step, steps_of
from backends.base.refusals import refuse_columns, refuse_fanouts
from backends.base.sparse_tensor import csr_tensor, sparse_of
from backends.batches import BatchPlan
from backends.contract import Clock, Floats, Nodes, Unsupported
from backends.model import ModelSpec, State, TrainingSpec
from backends.registry import BackendConfig
from datasets.csr import Csr
from datasets.features import Features, SparseFeatures, dense_features, share_set
from datasets.graph import Graph

SIZED_BATCHES = 16  # of an epoch, whose sizes stand for all


@dataclass
class Batch:
    """The input of one step: the structure that layers aggregate over, and the features [inputs, width].

    ``rows`` selects the targets from the output rows; ``None`` keeps all rows. ``labels`` are those of the remaining
    rows; ``None`` where these are the targets, in their order. ``nodes`` int64 are original numbers of the inputs,
    ``None``: their positions.
    """

    structure: Any
    features: Any
    targets: Nodes
    rows: Tensor | slice | None = None
    labels: Targets | None = None
    nodes: Tensor | None = None


class TorchTrainer:
    """A ``contract.Trainer``; subclasses define the network and the structure that its layers aggregate over.

    To define: ``network(spec, training)``, ``structure(graph)`` for a whole graph, ``mini_batch(targets)`` where the
    engine trains in mini batches, ``layer_csrs(structure)`` for the facts.
    """

    draws_fanouts = False  # whether mini batches are sampled by the model's fanouts
    own_loss = "torch"  # the form of the loss that the engine has unless ``backend.loss`` names another

    def __init__(self, config: BackendConfig) -> None:
        self.config: Any = config
        self.forward_only = False  # whether layers run without a backward pass, for inference
        self.structures: dict[int, tuple[Graph, Batch]] = {}
        self.sizes: list[StepSizes] = []

    def network(self, spec: ModelSpec, training: TrainingSpec) -> Network:
        """Build the engine's network."""
        raise TypeError(f"{type(self).__name__} must define network")

    def structure(self, graph: Graph) -> Any:
        """Build the form of a whole graph that the engine's layers aggregate over."""
        raise TypeError(f"{type(self).__name__} must define structure")

    def mini_batch(self, targets: Nodes) -> Batch:
        """Build the batch that trains ``targets``, from ``self.graph``."""
        raise TypeError(f"{type(self).__name__} must define mini_batch")

    def layer_csrs(self, structure: Any) -> list[Csr]:
        """The matrix of each layer in a structure, first layer first."""
        raise TypeError(f"{type(self).__name__} must define layer_csrs")

    def aggregates_first(self, layer: int) -> bool:
        """Whether the engine aggregates a layer's input (else its transformed output)."""
        return self.spec.name == "sage" or self.spec.width_in(layer) < self.spec.width_out(layer)

    def gathers_input(self, layer: int, csr: Csr) -> bool:
        """Whether the engine aggregates a layer's input over this matrix; some engines decide by its shape."""
        return self.aggregates_first(layer)

    def has_backward_product(self, layer: int, csr: Csr) -> bool:
        """Whether a layer multiplies with the transpose: not for constant features, but gat's scores have gradients."""
        if self.spec.propagates:
            return any(step.has_backward for step in steps_of(self.spec, self.has_sparse_input))
        return layer > 0 or not self.gathers_input(layer, csr) or self.spec.name == "gat"

    def prepare(
        self, graph: Graph, spec: ModelSpec, training: TrainingSpec, state: State, plan: BatchPlan, clock: Clock
    ) -> None:
        """Build structure and network, take over labels and parameters; phases ``structure``, ``model``."""
        self.refuse_columns(graph, spec, training, plan)
        if not self.draws_fanouts:
            refuse_fanouts(spec, self.config.name)
        self.set_task(graph, spec, training, plan)
        with clock.phase("structure"):
            self.prepare_structure()
        with clock.phase("model"):
            self.model = self.network(spec, training).to(self.device, self.dtype)
            self.labels = self.targets_of(np.arange(graph.nodes))
            self.load(state)

    def refuse_columns(self, graph: Graph, spec: ModelSpec, training: TrainingSpec, plan: BatchPlan) -> None:
        """Raise Unsupported for columns of the edges that the model or the engine would not read."""
        refuse_columns(graph, spec)
        if spec.edge_width and not self.scores_edges(spec, plan):
            raise Unsupported(
                f"backend {self.config.name} does not score features of edges here, which {graph.name} has: leave out "
                "dataset.options.edge_features, or choose another form or backend=agl"
            )

    def scores_edges(self, spec: ModelSpec, plan: BatchPlan) -> bool:
        """Whether gat's scores may read features of edges."""
        return False

    def set_task(
        self, graph: Graph, spec: ModelSpec, training: TrainingSpec, plan: BatchPlan, forward_only: bool = False
    ) -> None:
        """Take over graph, model, training with its device, and plan, and set the number of threads."""
        torch.set_num_threads(training.threads)
        self.device, self.dtype = torch.device(training.device), getattr(torch, training.dtype)
        self.graph, self.spec, self.training, self.plan = graph, spec, training, plan
        self.forward_only, self.sizes = forward_only, []

    def load_for_inference(self, state: State) -> None:
        """Build the network and take over parameters that are not trained."""
        self.model = self.network(self.spec, self.training).to(self.device, self.dtype)
        self.model.load(state)
        self.model.eval()

    def prepare_structure(self) -> None:
        """Build what training needs before its first epoch: the whole graph's structure when full batch."""
        if self.plan.full_batch:
            self.full = self.target_batch(self.plan.nodes)

    def full_batch(self, graph: Graph, targets: Nodes) -> Batch:
        """The whole graph as one batch that trains ``targets``; the structure of a graph is built once."""
        if id(graph) not in self.structures:
            assert graph.features is not None
            features, nodes = self.input_of(graph.features), original_numbers(graph, self.device)
            self.structures[id(graph)] = (graph, Batch(self.structure(graph), features, targets, nodes=nodes))
        batch = self.structures[id(graph)][1]
        rows = None if np.array_equal(targets, np.arange(graph.nodes)) else self.on_device(targets)
        return replace(batch, targets=targets, rows=rows)

    def input_of(self, features: Features) -> Any:
        """Features as the network takes them: dense, or by ``backend.input`` torch's CSR tensor."""
        if getattr(self.config, "input", "dense") == "sparse":
            return csr_tensor(sparse_of(features, self.config.name)).to(self.device, self.dtype)
        return self.on_device(np.array(dense_features(features, f"backend {self.config.name}"))).to(self.dtype)

    def on_device(self, array: NDArray[Any]) -> Tensor:
        """An array as a tensor on the device, on the CPU without a copy."""
        return torch.from_numpy(np.asarray(array)).to(self.device)

    def load(self, state: State) -> None:
        """Take over parameters, make a new optimizer and seed the random numbers again."""
        self.model.load(state)
        self.model.epoch = 0
        self.optimizer = self.make_optimizer()
        torch.manual_seed(self.training.seed)

    def make_optimizer(self) -> Any:
        """Build the optimizer: torch's, unless the engine has one of its own."""
        return optimizer_of(self.model, self.training)

    def batches(self, index: int, clock: Clock) -> Iterator[Batch]:
        """Yield the batches of an epoch; engines with loaders or pipelines override this."""
        if self.plan.full_batch:
            yield self.full
            return
        for targets in self.plan.targets(index):
            with clock.phase("vectorize"):
                batch = self.mini_batch(targets)
            yield batch

    def epoch(self, index: int, clock: Clock) -> float:
        """Train one epoch and return its mean loss; phases ``vectorize``, ``forward``, ``backward``, ``step``."""
        if not self.model.training:
            self.model.train()
        self.model.epoch = index
        total, count = 0.0, 0
        for batch in self.batches(index, clock):
            total += self.train_batch(batch, clock) * len(batch.targets)
            count += len(batch.targets)
        return total / count

    def train_batch(self, batch: Batch, clock: Clock) -> float:
        """Take one step with a batch and return its mean loss; phases ``forward``, ``backward``, ``step``."""
        self.optimizer.zero_grad(set_to_none=True)
        with clock.phase("forward"):
            loss = self.loss_of_batch(batch)
        with clock.phase("backward"):
            loss.backward()
        with clock.phase("step"):
            self.optimizer.step()
        return float(loss.detach())

    def loss_of_batch(self, batch: Batch) -> Tensor:
        """Mean loss of a batch, with autograd."""
        return self.loss(self.logits(batch), self.batch_labels(batch))

    def logits(self, batch: Batch) -> Tensor:
        """Logits of a batch's targets, in their order."""
        out: Tensor = self.model(batch.features, batch.structure, batch.nodes)
        return out if batch.rows is None else out[batch.rows]

    def loss(self, logits: Tensor, targets: Targets) -> Tensor:
        """Mean loss of a batch, in the form of ``backend.loss``."""
        return loss_of(logits, targets, self.loss_form)

    @property
    def loss_form(self) -> str:
        """The form of the loss: that of ``backend.loss``, the engine's own where its config has no such option."""
        return str(getattr(self.config, "loss", self.own_loss))

    def batch_labels(self, batch: Batch) -> Targets:
        """Labels of the rows that ``logits`` returns."""
        return self.labels[self.on_device(batch.targets)] if batch.labels is None else batch.labels

    def loss_and_gradients(self, targets: Nodes) -> tuple[Floats, float, dict[str, Floats]]:
        """Logits, loss and canonical gradients of one batch, computed as in an epoch."""
        rows, loss, gradients = self.gradients_of(self.target_batch(np.ascontiguousarray(targets)))
        return (rows if len(rows) == len(targets) else rows[targets]).copy(), loss, gradients

    def gradients_of(self, batch: Batch) -> tuple[Floats, float, dict[str, Floats]]:
        """Logits of a batch's rows, its loss and canonical gradients."""
        self.model.train()
        self.optimizer.zero_grad(set_to_none=True)
        logits = self.logits(batch)
        loss = self.loss(logits, self.batch_labels(batch))
        loss.backward()
        return logits.detach().cpu().numpy(), float(loss.detach()), dict(self.model.gradients())

    def target_batch(self, targets: Nodes) -> Batch:
        """The batch that trains ``targets`` in an epoch."""
        return self.whole_graph_batch(targets) if self.plan.full_batch else self.mini_batch(targets)

    def whole_graph_batch(self, targets: Nodes) -> Batch:
        """The whole graph with its loss on ``targets``: few are selected, for many the other labels are masked."""
        batch = self.full_batch(self.graph, targets)
        if 2 * len(targets) <= self.graph.nodes:
            return replace(batch, labels=self.targets_of(targets))
        others = np.setdiff1d(np.arange(self.graph.nodes), targets)
        return replace(batch, rows=None, labels=self.targets_of(np.arange(self.graph.nodes), masked=others))

    def targets_of(self, nodes: Nodes, masked: Nodes | None = None) -> Targets:
        """Labels of nodes of the training graph, on the device and in the type of the training."""
        return targets_of(self.graph, nodes, masked, self.dtype).to(self.device)

    def predict(self, graph: Graph, nodes: Nodes) -> Floats:
        """Logits of ``nodes`` from one pass over the whole graph, without dropout."""
        self.model.eval()
        # Not inference mode: kernels cache tensors with a matrix that training uses too, and PyG slices an EdgeIndex.
        with torch.no_grad():
            batch = self.full_batch(graph, np.ascontiguousarray(nodes))
            out: Floats = self.logits(batch).cpu().numpy()
        return out

    def state(self) -> State:
        """The parameters under their canonical names."""
        return self.model.state()

    def spmm_operands(self) -> list[dict[str, Any]]:
        """The SpMMs of one epoch, name, csr, width, itemsize and count, as if all batches were like a usual one."""
        targets = self._sized_batches()[usual_step(self.sizes_of_epoch())]
        return self.spmms_of(self.target_batch(targets).structure, self.plan.batches)

    def spmms_of(self, structure: Any, count: int) -> list[dict[str, Any]]:
        """The SpMMs of ``count`` steps over a structure."""
        return [
            {
                "name": name,
                "csr": csr.transpose[0] if is_backward else csr,
                "width": width,
                "itemsize": self.dtype.itemsize,
                "count": count,
            }
            for name, csr, width, is_backward in self.products(structure)
        ]

    def products(self, structure: Any) -> Iterator[tuple[str, Csr, int, bool]]:
        """Name, matrix and width of each SpMM of a step, and whether it multiplies with the matrix's transpose.

        Features have no gradient, so layer 0 may lack a backward product; inference has none.
        """
        for layer, (csr, step) in enumerate(self.steps(structure)):
            yield f"layers.{layer} forward", csr, step.width, False
            if step.has_backward and not self.forward_only:
                yield f"layers.{layer} backward", csr, step.width, True

    def sizes_of_epoch(self) -> list[StepSizes]:
        """Sizes of batches of the first epoch, drawn once more: batches differ, above all by the hubs in them."""
        if self.plan.full_batch or not self.sizes:
            self.sizes = [self._sizes_of(self.target_batch(targets).structure) for targets in self._sized_batches()]
        return self.sizes

    def _sized_batches(self) -> list[Nodes]:
        """Targets of at most ``SIZED_BATCHES`` batches over the first epoch: each may take an engine long."""
        batches = self.plan.targets(0)
        chosen = np.linspace(0, len(batches) - 1, min(len(batches), SIZED_BATCHES)).round().astype(np.int64)
        return [batches[number] for number in chosen.tolist()]

    def _sizes_of(self, structure: Any) -> StepSizes:
        products = {}
        for name, csr, width, is_backward in self.products(structure):
            rows, columns = csr.shape
            products[name, width] = (csr.nnz, columns, rows) if is_backward else (csr.nnz, rows, columns)
        return StepSizes(products, sum(self.dense_flops_of(structure)))

    def steps(self, structure: Any) -> list[tuple[Csr, Step]]:
        """The products of one pass over a structure, with their matrices."""
        csrs = self.layer_csrs(structure)
        if self.spec.propagates:
            return [(csrs[0], step) for step in steps_of(self.spec, self.has_sparse_input)]
        steps = []
        for layer, csr in enumerate(csrs):
            first = self.gathers_input(layer, csr)
            width = self.spec.width_in(layer) if first else self.spec.width_out(layer) * self.spec.heads_of(layer)
            steps.append((csr, Step(width, self.has_backward_product(layer, csr))))
        return steps

    @property
    def has_sparse_input(self) -> bool:
        """Whether the network's input is a sparse matrix."""
        return getattr(self.config, "input", "dense") != "dense"

    def facts(self) -> dict[str, Any]:
        """Sizes of an epoch's SpMMs, and operations of its dense layers: those of a mean batch."""
        return epoch_facts(self.sizes_of_epoch(), self.plan.batches)

    def dense_flops_of(self, structure: Any) -> list[int]:
        """Operations of the dense products of one step, first layer first.

        Zeros of sparse features are not counted: they need not be multiplied, whatever the engine does.
        """
        csrs, features = self.layer_csrs(structure), self.graph.features
        if self.spec.propagates:
            flops = list(propagation_flops(self.spec, csrs[0].shape[0]))
        else:
            shapes = [(csr.shape, self.gathers_input(layer, csr)) for layer, csr in enumerate(csrs)]
            flops = [
                dense_flops(self.spec, layer, rows if gathers else columns, rows)
                for layer, ((rows, columns), gathers) in enumerate(shapes)
            ]
        if isinstance(features, SparseFeatures):
            flops[0] = int(flops[0] * share_set(features))
        return flops

    def close(self) -> None:
        """Nothing runs between the calls of this trainer."""


def original_numbers(graph: Graph, device: torch.device) -> Tensor | None:
    """Original numbers of a graph's nodes, int64 [nodes] on a device; ``None``: their positions."""
    return None if graph.node_ids is None else torch.from_numpy(np.array(graph.node_ids, dtype=np.int64)).to(device)
