"""One rank of the full-batch engine: the layered network on its slice, with rows exchanged before each product."""

import time
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from backends.base.layered import LayeredNetwork, LayerMatrix, Parts
from backends.base.loss import Targets, loss_of
from backends.base.optimizer import KernelAdam, optimizer_of
from backends.base.sparse_rows import Rows, SparseRows
from backends.blocksparse.adaptive import FORMS, Forms, adapt
from backends.blocksparse.config import BlocksparseConfig
from backends.blocksparse.distributed import SplitMatrix, add_up, fetch, fetch_and_sum
from backends.blocksparse.exchange import Links, SentRows
from backends.blocksparse.layout import RankLayout
from backends.blocksparse.phases import AGGREGATION, RankPhases, aggregation_seconds
from backends.blocksparse.slices import Numbers, OwnTargets, RankSlice
from backends.contract import Floats
from backends.kernels import Mask
from backends.kernels.operand import build_transpose
from backends.kernels.profiling import named
from backends.model import ModelSpec, State, TrainingSpec
from datasets.features import SparseFeatures


@dataclass(frozen=True)
class RankTask:
    """What all ranks compute: the model, its products as (width, has a backward product), the engine's options.

    ``sparse``: features stay a sparse matrix.
    """

    layout: RankLayout
    spec: ModelSpec
    training: TrainingSpec
    products: tuple[tuple[int, bool], ...]
    config: BlocksparseConfig
    sparse: bool

    @property
    def has_backward(self) -> bool:
        """Whether some product is multiplied with the transpose too: none is in inference."""
        return any(has_backward for _, has_backward in self.products)


@dataclass(frozen=True)
class Goal:
    """A rank's targets on its device: their rows, their labels, and their share of all labels."""

    rows: Tensor
    values: Targets
    share: float


class RankNetwork(LayeredNetwork):
    """The layered network on a slice: own rows in, own rows out."""

    def __init__(
        self, spec: ModelSpec, training: TrainingSpec, sparse_input: bool, links: Links, overlap: bool
    ) -> None:
        super().__init__(spec, training, sparse_input=sparse_input)
        self.links, self.fuses = links, links.layout.replication == 1 and not overlap
        self.reduce = "sum"  # a slice's edges have sage's weights 1 / in-degree

    def inputs_of(self, features: Rows, matrix: LayerMatrix) -> Rows:
        """The own rows: those that the matrix multiplies arrive later."""
        return features

    def exchange(self, sent: Parts, matrix: LayerMatrix) -> Parts:
        """Fetch what nodes send along their edges, all of it at once; a split matrix fetches while it multiplies."""
        if isinstance(matrix, SplitMatrix):
            return sent
        flat = [part.flatten(1) for part in sent.values()]
        fetched = fetch(flat[0] if len(flat) == 1 else torch.cat(flat, 1), self.links)
        parts = fetched.split([part.shape[1] for part in flat], 1)
        return {
            name: part.reshape(-1, *value.shape[1:]) for (name, value), part in zip(sent.items(), parts, strict=True)
        }

    def aggregate(self, matrix: LayerMatrix, x: Tensor) -> Tensor:
        """Aggregate over the slice's edges, then over the ranks that hold the same rows."""
        if isinstance(matrix, SplitMatrix):
            return add_up(fetch_and_sum(x, matrix, self.links), self.links)
        with named(AGGREGATION):
            total = super().aggregate(matrix, x)
        return add_up(total, self.links)

    def receive(
        self,
        layer: int,
        sent: Parts,
        own: Parts,
        matrix: LayerMatrix,
        activation: str = "none",
        mask: Mask | None = None,
    ) -> Tensor:
        """Name attention, and a sum that is fused with what follows it, as a product with the matrix."""
        is_product = self.spec.name == "gat" or (self.fuses and not self.aggregates_first(layer))
        with named(AGGREGATION) if is_product else nullcontext():
            return super().receive(layer, sent, own, matrix, activation, mask)

    def propagate(self, x: Tensor, structure: Any) -> Tensor:
        """Multiply by the matrix: fetch the rows of others, then aggregate."""
        return self.aggregate(structure[0], self.exchange({"x": x}, structure[0])["x"])

    def _convolve(self, layer: int, hidden: Rows, structure: Any, activation: str, mask: Mask | None = None) -> Tensor:
        sent, own = self.send(layer, hidden, len(hidden))
        matrix = structure[layer]
        return self.receive(layer, self.exchange(sent, matrix), own, matrix, activation, mask)


class RankWorker:
    """Trains its share of the full batch; all ranks call the same methods at the same time."""

    def __init__(
        self, rank: int, task: RankTask, part: RankSlice, state: State, links: Callable[..., Links] = Links
    ) -> None:
        self.task, self.rank = task, rank
        self.dtype, self.device = getattr(torch, task.training.dtype), torch.device(task.training.device)
        matrix, incoming, sent = self._matrix(part)
        config, rows = task.config, part.csr.shape[0]
        self.links = links(task.layout, rank, incoming, sent, rows, config.exchange == "broadcast", config.network)
        self.structure = [matrix] * task.spec.layers
        self.features, self.nodes = self._input(part), self._on_device(part.nodes)
        model = RankNetwork(task.spec, task.training, task.sparse, self.links, config.overlap)
        self.model = model.to(self.device, self.dtype)
        self.chosen: Forms = {name: {} for name in FORMS}
        for name, each in _parts_of(matrix).items():
            self._prepare_products(name, each)
        self.load(state)

    def _matrix(self, part: RankSlice) -> tuple[LayerMatrix, list[int], list[SentRows]]:
        """The slice's matrix, how many rows come from each block, and which own rows go to each rank."""
        sent = list(part.sent)
        weight = None if part.weight is None else self._on_device(part.weight)
        matrix, incoming = LayerMatrix(part.csr, weight), list(part.incoming)
        if self.task.config.overlap:
            block, _ = self.task.layout.place(self.rank)
            own_rows = np.asarray(sent[block][: incoming[block]], dtype=np.int64)
            matrix = SplitMatrix.of(part.csr, weight, sum(incoming[:block]), own_rows, part.csr.shape[0])
            incoming[block], sent[block] = 0, sent[block][:0]
        return matrix, incoming, [rows if isinstance(rows, range) else self._on_device(rows) for rows in sent]

    def _prepare_products(self, name: str, matrix: LayerMatrix) -> None:
        """Build the transpose of a matrix where a product needs it, and try forms of the products with it."""
        if self.task.has_backward:
            build_transpose(matrix.csr, matrix.weight)
        widths = {
            f"{name}, width {width}, {direction}": width
            for width, has_backward in self.task.products
            for direction in ("forward", "backward")[: 1 + has_backward]
        }
        options = self.task.config, self.task.spec.name, self.device, self.dtype
        for form, choices in adapt(*options, matrix, widths).items():
            self.chosen[form] |= choices

    def forms(self) -> Forms:
        """The forms of this rank's products, as ``adaptive.adapt`` returns them."""
        return self.chosen

    def _on_device(self, array: NDArray[Any]) -> Tensor:
        return torch.from_numpy(np.array(array)).to(self.device)

    def _input(self, part: RankSlice) -> Rows:
        if self.task.sparse and isinstance(part.features, SparseFeatures):
            rows = SparseRows.of(part.features, self.device, self.dtype)
            if self.task.has_backward:  # X^T dZ is the gradient of W, which training alone computes
                build_transpose(rows.csr, rows.values)
            return rows
        features = part.features.dense() if isinstance(part.features, SparseFeatures) else part.features
        assert features is not None
        return self._on_device(features).to(self.dtype)

    def load(self, state: State) -> None:
        """Take over parameters and make a new optimizer."""
        self.model.load(state)
        self.model.epoch = 0
        training = self.task.training
        ours = training.optimizer == "adam" and self.device.type == "cpu"
        self.optimizer = KernelAdam(self.model, training) if ours else optimizer_of(self.model, training)

    def state(self) -> State:
        """The parameters, which are equal on all ranks."""
        return self.model.state()

    def train_on(self, targets: OwnTargets) -> None:
        """Take over the targets of all epochs, so that they do not travel with each."""
        self.goal = self._goal(targets)

    def epoch(self, index: int) -> tuple[float, dict[str, float]]:
        """Train one epoch; returns the loss of all ranks, and this rank's bytes and seconds of collectives."""
        self.model.train()
        self.model.epoch = index
        self.links.traffic.reset()
        _, loss = self._step(self.goal)
        self.optimizer.step()
        traffic = self.links.traffic
        return loss, asdict(traffic)

    def loss_and_gradients(self, targets: OwnTargets) -> tuple[Floats, float, State]:
        """Logits of own targets, the loss of all ranks, and the gradients, which are equal on all ranks."""
        self.model.train()
        logits, loss = self._step(self._goal(targets))
        return logits.detach().cpu().numpy(), loss, self.model.gradients()

    def phases(self) -> RankPhases:
        """Seconds of one more pass, under torch's profiler; no parameter changes."""
        self.model.train()
        self.links.traffic.reset()
        with torch.autograd.profiler.profile() as profile:
            start = time.perf_counter()
            self._step(self.goal)
            seconds = time.perf_counter() - start
        aggregate = aggregation_seconds(profile.function_events or [])
        traffic = self.links.traffic
        dense = max(0.0, seconds - aggregate - traffic.exposed)
        return RankPhases(aggregate, dense, traffic.seconds, traffic.exposed)

    def answer_for(self, rows: Numbers) -> None:
        """Take over the own rows whose logits later calls ask for, so that they do not travel with each."""
        self.asked = self._on_device(rows)

    def predict(self) -> Floats:
        """Logits of the rows of ``answer_for``."""
        self.model.eval()
        with torch.no_grad():
            logits = self.model(self.features, self.structure, self.nodes).index_select(0, self.asked)
        answer: Floats = logits.cpu().numpy()
        return answer

    def _goal(self, targets: OwnTargets) -> Goal:
        rows = self._on_device(targets.rows)
        labels = self._on_device(targets.labels)
        values = Targets.of(labels if labels.dim() == 1 else labels.to(self.dtype))
        return Goal(rows, values, targets.share)

    def _step(self, goal: Goal) -> tuple[Tensor, float]:
        """One forward and backward pass; gradients and loss are summed over one replica of every row."""
        self.optimizer.zero_grad(set_to_none=True)
        out = self.model(self.features, self.structure, self.nodes)
        logits = out.index_select(0, goal.rows)
        # a rank without a target takes part in the exchange of the backward pass
        loss = loss_of(logits, goal.values, self.task.config.loss) * goal.share if goal.share else out[:0].sum()
        loss.backward()
        parameters = list(self.model.parameters())
        total = torch.cat([loss.detach().view(1), *(_gradient(parameter).view(-1) for parameter in parameters)])
        total = self.links.sum_of_blocks(total)
        for parameter, part in zip(parameters, total[1:].split([p.numel() for p in parameters]), strict=True):
            parameter.grad = part.view_as(parameter)
        return logits, float(total[0])


def _parts_of(matrix: LayerMatrix) -> dict[str, LayerMatrix]:
    """A slice's matrix, or its parts over received and over own rows."""
    if isinstance(matrix, SplitMatrix) and matrix.own is not None:
        return {"received rows": matrix, "own rows": LayerMatrix(matrix.own, matrix.own_weight)}
    return {"all rows": matrix}


def _gradient(parameter: Tensor) -> Tensor:
    return torch.zeros_like(parameter) if parameter.grad is None else parameter.grad
