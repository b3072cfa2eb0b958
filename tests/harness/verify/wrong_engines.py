"""An engine in plain torch that can be wrong in one of many ways, each named; by default it is right."""

from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from backends.base.loss import targets_of
from backends.base.network import Network
from backends.base.trainer import Batch, TorchTrainer
from backends.contract import Clock, Floats, Nodes
from backends.model import ModelSpec, TrainingSpec
from backends.reference.definition import ranks
from backends.registry import BackendConfig
from datasets.graph import Graph

ALL, LOOPED = ("gcn", "sage", "gat"), ("gcn", "gat")
WRONG: dict[str, tuple[str, ...]] = {
    "edge lost": ALL,
    "edge twice": ALL,
    "parallel edges merged": ALL,
    "edges reversed": ALL,
    "degree off by one": ("gcn", "sage"),
    "out-degrees": ("gcn", "sage"),
    "edge weights ignored": ("gcn",),
    "self loop missing": LOOPED,
    "self loop double": LOOPED,
    "self loop added": ("sage",),
    "sum for mean": ("sage",),
    "own row missing": ("sage",),
    "stale halo row": ALL,
    "slope": ("gat",),
    "weight transposed": LOOPED,
    "bias missing": ALL,
    "bias twice": ALL,
    "activation missing": ALL,
    "activation on the last layer": ALL,
    "activation leaks": ("gcn", "sage"),
    "ELU's alpha": ("gat",),
    "heads permuted": ("gat",),
    "ends of scores swapped": ("gat",),
    "softmax over out-edges": ("gat",),
    "softmax without maximum": ("gat",),
    "heads added": ("gat",),
    "bf16 sums": ALL,
    "tf32 products": ALL,
    "row stale": ALL,
    "loss over the wrong count": ALL,
    "labels shifted": ALL,
    "validation nodes in the loss": ALL,
    "gradient scaled": ALL,
    "gradient of one bias zero": ALL,
    "gradient absent": ALL,
    "gradients add up": ALL,
    "decay in the gradient": ALL,
    "neighbours detached": ALL,
    "scores detached": ("gat",),
    "gradient passes the activation": ("gcn", "sage"),
    "fanouts ignored": ALL,
    "fanouts of another seed": ALL,
    "degrees of the sample": ("gcn",),
}
INFERENCE = ("bias missing", "edge lost", "activation on the last layer", "dropout left on")
WRONG_DROPOUT: dict[str, tuple[str, ...]] = {
    "dropout ignored": ALL,
    "dropout not scaled": ALL,
    "dropout of another rate": ALL,
    "dropout of the first layer alone": ALL,
    "dropout's gradient of another mask": ALL,
    "dropout's gradient not masked": ALL,
    "dropout left on": ALL,
    "dropout of the aggregated input": ("sage",),
    "dropout forgotten in epochs after a prediction": ALL,
    "dropout of one mask in all epochs": ALL,
    "dropout makes NaN": ALL,
    "attention dropout ignored": ("gat",),
    "attention dropout not scaled": ("gat",),
    "attention dropout's gradient of another mask": ("gat",),
    "attention dropout before the softmax": ("gat",),
    "attention dropout left on": ("gat",),
}


@dataclass
class MutantConfig(BackendConfig):
    """The engine with one mistake, or none."""

    name: str = "mutant"
    wrong: str = ""
    runtimes: ClassVar[dict[str, str]] = {
        "train": f"{__name__}:MutantTrainer",
        "infer": f"{__name__}:MutantInferrer",
    }
    models: ClassVar[tuple[str, ...]] = ALL
    kind: ClassVar[str] = "test"
    draws: ClassVar[tuple[str, ...]] = ("train", "infer")


@dataclass
class Edges:
    """Edges of one layer with their weights."""

    nodes: int
    source: Tensor
    destination: Tensor
    weight: Tensor

    def sum(self, messages: Tensor) -> Tensor:
        """Add up messages at their destinations."""
        return messages.new_zeros((self.nodes, *messages.shape[1:])).index_add(0, self.destination, messages)


def edges_of(graph: Graph, model: str, wrong: str, marks: Any) -> Edges:
    """The edges of a layer, those that are marked, with self loops and weights."""
    csr = graph.csr
    ends = np.stack((csr.indices, csr.destinations)).astype(np.int64)
    weight = np.ones(csr.nnz) if graph.edge_weights is None else graph.edge_weights.astype(np.float64)
    if wrong == "edge weights ignored":
        weight = np.ones(csr.nnz)
    if wrong == "edges reversed":
        ends = ends[::-1].copy()
    loops = np.tile(np.arange(graph.nodes), (2, 1))
    if wrong == "self loop missing":
        loops = loops[:, 1:]
    if wrong == "self loop double":
        loops = np.concatenate((loops, loops[:, :1]), 1)
    if model == "sage":
        loops = loops[:, :1] if wrong == "self loop added" else loops[:, :0]
    every = np.concatenate((ends, loops), 1), np.concatenate((weight, np.ones(loops.shape[1])))
    degree = np.bincount(every[0][0 if wrong == "out-degrees" else 1], every[1], graph.nodes)
    positions = np.flatnonzero(marks)
    if wrong == "edge lost":
        positions = np.delete(positions, len(positions) // 2)
    if wrong == "edge twice":
        positions = np.sort(np.append(positions, positions[len(positions) // 2]))
    if wrong == "parallel edges merged":
        positions = positions[np.unique(ends[:, positions], axis=1, return_index=True)[1]]
    ends, weight = (
        np.concatenate((ends[:, positions], loops), 1),
        np.concatenate((weight[positions], every[1][csr.nnz :])),
    )
    if wrong == "degrees of the sample" or model == "sage":
        degree = np.bincount(ends[0 if wrong == "out-degrees" else 1], weight, graph.nodes)
    if wrong == "degree off by one":
        degree[0] += 1
    degree = np.maximum(degree, 1e-30)
    if model == "gcn":
        weight = weight * degree[ends[0]] ** -0.5 * degree[ends[1]] ** -0.5
    elif model == "sage":
        weight = np.ones(len(weight)) if wrong == "sum for mean" else np.minimum(1.0 / degree[ends[1]], 1.0)
    return Edges(graph.nodes, torch.from_numpy(ends[0]), torch.from_numpy(ends[1]), torch.from_numpy(weight).float())


class OtherMask(torch.autograd.Function):
    """Multiplies with one mask, and the gradient with another."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, mask: Tensor, other: Tensor) -> Tensor:
        """Multiply."""
        ctx.other = other
        return x * mask

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Any:
        """Multiply with the other mask."""
        return gradients[0] * ctx.other, None, None


def dropped(x: Tensor, rate: float, wrong: str) -> Tensor:
    """Dropout with one mistake, or none."""
    if rate == 0 or wrong.endswith("ignored"):
        return x
    if wrong.endswith("makes NaN"):
        return x * torch.nan
    scale = 1.0 if wrong.endswith("not scaled") else 1.0 / (1.0 - rate)
    used = 1.0 - rate if wrong.endswith("of another rate") else rate
    mask = (torch.rand_like(x) >= used).to(x.dtype) * scale
    if wrong.endswith("of another mask"):
        return OtherMask.apply(x, mask, mask.roll(1, 0))  # type: ignore[no-any-return,no-untyped-call]
    if wrong.endswith("not masked"):
        return OtherMask.apply(x, mask, torch.ones_like(x))  # type: ignore[no-any-return,no-untyped-call]
    return x * mask


def tf32(x: Tensor) -> Tensor:
    """Round to ten bits of mantissa; gradients pass."""
    bits = x.detach().view(torch.int32)
    return x + (((bits + 0x1000) & ~0x1FFF).view(torch.float32) - x).detach()


class MutantNetwork(Network):
    """The three models over edges, with one mistake."""

    wrong = ""
    forgets = False  # to drop, although it trains

    def forward(self, features: Tensor, structure: Any, nodes: Tensor | None = None) -> Tensor:
        """Logits of all nodes."""
        hidden = features
        left_on = self.wrong in ("dropout left on", "attention dropout left on")
        self.active = (self.training and not self.forgets) or left_on
        for layer in range(self.spec.layers):
            if self.active and not (self.wrong == "dropout of the first layer alone" and layer):
                mistake = self.wrong if self.wrong.startswith("dropout") else ""
                if mistake != "dropout of the aggregated input":
                    hidden = dropped(hidden, self.settings.dropout, mistake)
            hidden = self._activate(layer, self.convolve(layer, hidden, structure))
        return self.logits_of(hidden)

    def _activate(self, layer: int, x: Tensor) -> Tensor:
        last = self.spec.is_last(layer)
        if last != (self.wrong == "activation on the last layer" and last) or (
            self.wrong == "activation missing" and layer == 0
        ):
            return x
        if self.spec.activation() == "elu":
            return functional.elu(x, 1.01 if self.wrong == "ELU's alpha" else 1.0)
        if self.wrong == "gradient passes the activation":
            return x + (functional.relu(x) - x).detach()
        return functional.leaky_relu(x, 0.001) if self.wrong == "activation leaks" else functional.relu(x)

    def product(self, layer: int, hidden: Tensor, name: str) -> Tensor:
        """Multiply with a weight."""
        weight = self.parameter(layer, name)
        if self.wrong == "weight transposed" and weight.shape[0] == weight.shape[1]:
            weight = weight.T
        if self.wrong == "tf32 products":
            return tf32(hidden) @ tf32(weight)
        return hidden @ weight

    def aggregate(self, edges: Edges, alpha: Tensor, x: Tensor) -> Tensor:
        """Weighted sum of rows [n, ...] over in-edges."""
        if self.wrong == "stale halo row":
            x = torch.cat((x[:1], x[:1].detach(), x[2:]))
        if self.wrong == "neighbours detached":
            x = x.detach()
        messages = alpha.reshape(*alpha.shape, *(1,) * (x.dim() - alpha.dim())) * x[edges.source]
        if self.wrong == "bf16 sums":
            return edges.sum(messages.bfloat16()).float()
        return edges.sum(messages)

    def convolve(self, layer: int, hidden: Tensor, structure: Any) -> Tensor:
        """One convolution without its activation."""
        edges: Edges = structure[layer]
        bias = self.parameter(layer, "bias")
        if self.wrong == "bias missing" and self.spec.is_last(layer):
            bias = bias - bias.detach()
        if self.wrong == "bias twice":
            bias = bias + bias.detach()
        if self.spec.name == "gat":
            return self._attend(layer, hidden, edges) + bias
        if self.spec.name == "gcn":
            return self.aggregate(edges, edges.weight, self.product(layer, hidden, "weight")) + bias
        mean = self.aggregate(edges, edges.weight, hidden)
        if self.wrong == "dropout of the aggregated input" and self.active:
            hidden, mean = (dropped(x, self.settings.dropout, "") for x in (hidden, mean))
        out = self.product(layer, mean, "weight_neigh") + bias
        return out if self.wrong == "own row missing" else out + self.product(layer, hidden, "weight_self")

    def _attend(self, layer: int, hidden: Tensor, edges: Edges) -> Tensor:
        heads = self.spec.heads_of(layer)
        z = self.product(layer, hidden, "weight").view(len(hidden), heads, -1)
        names = ["att_src", "att_dst"]
        vectors = [self.parameter(layer, name) for name in names]
        if self.wrong == "ends of scores swapped":
            vectors.reverse()
        if self.wrong == "heads permuted":
            vectors[0] = vectors[0].roll(1, 0)
        score_src, score_dst = ((z * vector).sum(-1) for vector in vectors)
        slope = 0.201 if self.wrong == "slope" else self.spec.slope
        score = functional.leaky_relu(score_src[edges.source] + score_dst[edges.destination], slope)
        attention = self.wrong if self.wrong.startswith("attention") else ""
        rate = self.settings.attention_dropout if self.active else 0.0
        if attention.endswith("before the softmax"):
            score, rate = score + (torch.rand_like(score) < rate).float() * -50.0, 0.0
        if self.wrong != "softmax without maximum":
            score = score - score.detach().max()
        exponent = torch.exp(score)
        ends = edges.source if self.wrong == "softmax over out-edges" else edges.destination
        total = exponent.new_zeros((edges.nodes, heads)).index_add(0, ends, exponent)
        alpha = exponent / total[ends]
        if self.wrong == "scores detached":
            alpha = alpha.detach()
        out = self.aggregate(edges, dropped(alpha, rate, attention), z)
        if not self.spec.is_last(layer):
            return out.flatten(1)
        return out.sum(1) if self.wrong == "heads added" else out.mean(1)


class MutantTrainer(TorchTrainer):
    """Whole-graph training with one mistake."""

    draws_fanouts = True

    def set_task(
        self, graph: Graph, spec: ModelSpec, training: TrainingSpec, plan: Any, forward_only: bool = False
    ) -> None:
        """Take over the task; in lower precisions its tensors are of float32, and what is rounded is the mistake."""
        super().set_task(graph, spec, replace(training, dtype="float32"), plan, forward_only)

    def network(self, spec: ModelSpec, training: TrainingSpec) -> Network:
        """The network with the mistake."""
        network = MutantNetwork(spec, training)
        network.wrong = self.config.wrong
        return network

    def structure(self, graph: Graph) -> list[Edges]:
        """The edges of each layer."""
        seed = self.training.seed + (self.config.wrong == "fanouts of another seed")
        fanouts = self.spec.fanouts if self.config.wrong != "fanouts ignored" else ()
        places = ranks(graph, seed, max(fanouts, default=0))
        marks = [places < fanout for fanout in fanouts] or [np.ones(graph.csr.nnz, dtype=bool)] * self.spec.layers
        return [edges_of(graph, self.spec.name, self.config.wrong, layer) for layer in marks]

    def mini_batch(self, targets: Nodes) -> Batch:
        """The whole graph with its loss on some targets."""
        return replace(self.full_batch(self.graph, targets), labels=targets_of(self.graph, targets))

    def target_batch(self, targets: Nodes) -> Batch:
        """The whole graph with its loss on some targets."""
        return self.mini_batch(targets)

    def epoch(self, index: int, clock: Clock) -> float:
        """An epoch, perhaps as a prediction left the network, or with the masks of the one before."""
        assert isinstance(self.model, MutantNetwork)
        self.model.forgets = self.config.wrong.startswith("dropout forgotten") and not self.model.training
        if self.config.wrong == "dropout of one mask in all epochs":
            torch.manual_seed(self.training.seed)
        try:
            return super().epoch(index, clock)
        finally:
            self.model.forgets = False

    def loss_and_gradients(self, targets: Nodes) -> tuple[Floats, float, dict[str, Floats]]:
        """As a right trainer, and a mistake in the loss, its labels or the gradients."""
        wrong, graph = self.config.wrong, self.graph
        assert graph.labels is not None
        used = np.concatenate((targets, graph.nodes_of("validation"))) if wrong.startswith("validation") else targets
        right = graph.labels
        if wrong == "labels shifted":
            object.__setattr__(graph, "labels", np.roll(right, 1, axis=0))
        try:
            logits, loss, gradients = super().loss_and_gradients(used)
            if wrong == "gradients add up":
                gradients = {name: value + value for name, value in gradients.items()}
        finally:
            object.__setattr__(graph, "labels", right)
        if wrong == "loss over the wrong count":
            factor = len(targets) / (len(targets) + 1)
            loss, gradients = loss * factor, {name: value * np.float32(factor) for name, value in gradients.items()}
        last = f"layers.{self.spec.layers - 1}.bias"
        if wrong == "gradient scaled":
            gradients["layers.0.bias"] = gradients["layers.0.bias"] * np.float32(1.0001)
        if wrong == "gradient of one bias zero":
            gradients[last] = np.zeros_like(gradients[last])
        if wrong == "gradient absent":
            del gradients[last]
        if wrong == "decay in the gradient":
            gradients = {name: value + np.float32(5e-4) * self.state()[name] for name, value in gradients.items()}
        logits = logits[: len(targets)]
        if wrong == "row stale":
            logits[len(logits) // 2] = logits[0]
        return logits, loss, gradients


class MutantInferrer:
    """One pass with one mistake."""

    def __init__(self, config: MutantConfig) -> None:
        self.trainer = MutantTrainer(config)

    def prepare(self, graph: Graph, spec: ModelSpec, training: TrainingSpec, state: Any, plan: Any, clock: Any) -> None:
        """Prepare the trainer's network."""
        self.trainer.set_task(graph, spec, training, plan)
        self.trainer.load_for_inference(state)

    def infer(self, clock: Clock) -> Floats:
        """Score the plan's nodes."""
        return self.trainer.predict(self.trainer.graph, self.trainer.plan.nodes)

    def close(self) -> None:
        """Nothing runs between the calls."""
