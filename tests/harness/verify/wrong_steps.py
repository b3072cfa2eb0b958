"""A trainer whose gradients are right, and whose epochs can be wrong in one of many ways, each named."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
import torch

from backends.base.optimizer import optimizer_of
from backends.base.trainer import Batch
from backends.contract import Clock, Floats, Nodes
from backends.model import State, TrainingSpec
from datasets.graph import Graph
from tests.harness.verify.wrong_engines import MutantConfig, MutantTrainer, edges_of

WRONG_STEPS = (
    "no work",
    "no step",
    "no step from the second on",
    "half the rate",
    "rate of .01 whatever is asked",
    "no decay",
    "decay on all layers",
    "another optimizer",
    "moments start anew",
    "gradients add up over steps",
    "one parameter never moves",
    "batch of the step before",
    "loss of the step before",
    "loss of a part of the batch",
    "predicts from the first parameters",
    "predicts one row of another node",
    "predicts in ascending order",
    "predicts on the trained graph",
    "step makes NaN",
    "state of another shape",
    "trains the first batch alone",
    "leaves out the last batch",
    "steps with the first batch of an epoch alone",
)
WRONG_EPOCHS = (
    "trains the first batch alone",
    "leaves out the last batch",
    "loss of the first batch for the mean",
    "epochs use all neighbours",
)


@dataclass
class WrongStepsConfig(MutantConfig):
    """The trainer with one mistake, or none."""

    runtimes: ClassVar[dict[str, str]] = {"train": f"{__name__}:WrongStepsTrainer"}


class WrongStepsTrainer(MutantTrainer):
    """Training with one mistake in its epochs or predictions."""

    before: Any = None
    steps = 0

    def make_optimizer(self) -> Any:
        """The optimizer that was asked for, or another."""
        training, wrong = self.training, self.config.wrong
        changed = {
            "half the rate": {"rate": training.rate / 2},
            "rate of .01 whatever is asked": {"rate": 0.01},
            "no decay": {"decay": 0.0},
            "decay on all layers": {"decay_on": "all"},
            "another optimizer": {"optimizer": "sgd" if training.optimizer == "adam" else "adam"},
        }
        return optimizer_of(self.model, TrainingSpec(**(vars(training) | changed.get(wrong, {}))))

    def epoch(self, index: int, clock: Clock) -> float:
        """An epoch with or without work."""
        if self.steps == 0:
            self.first = self.state()
        self.losses: list[float] = []
        if self.config.wrong == "no work":
            return 1.0
        mean = super().epoch(index, clock)
        return self.losses[0] if self.config.wrong == "loss of the first batch for the mean" else mean

    def batches(self, index: int, clock: Clock) -> Iterator[Batch]:
        """The batches of an epoch, or not all of them, or with other edges."""
        batches, wrong = list(super().batches(index, clock)), self.config.wrong
        if wrong == "epochs use all neighbours":
            whole = edges_of(self.graph, self.spec.name, "", np.ones(self.graph.csr.nnz, dtype=bool))
            batches = [replace(batch, structure=[whole] * self.spec.layers) for batch in batches]
        if wrong == "trains the first batch alone":
            return iter(batches[:1])
        return iter(batches[:-1] or batches if wrong == "leaves out the last batch" else batches)

    def train_batch(self, batch: Batch, clock: Clock) -> float:
        """A step on the batch with one mistake."""
        wrong, previous = self.config.wrong, self.before
        self.before, self.steps = batch, self.steps + 1
        if wrong == "moments start anew":
            self.optimizer = self.make_optimizer()
        if wrong == "batch of the step before" and previous is not None:
            batch = previous
        if wrong != "gradients add up over steps":
            self.optimizer.zero_grad()
        loss = self.loss_of_batch(batch)
        loss.backward()
        before_step = {name: value.detach().clone() for name, value in self.model.named_parameters()}
        skips = wrong == "no step" or (wrong == "no step from the second on" and self.steps > 1)
        if not skips and not (wrong.startswith("steps with the first batch") and self.losses):
            self.optimizer.step()
        if wrong == "one parameter never moves":
            name, parameter = list(self.model.named_parameters())[-1]
            with torch.no_grad():
                parameter.copy_(before_step[name])
        if wrong == "step makes NaN":
            with torch.no_grad():
                next(self.model.parameters()).fill_(torch.nan)
        value = float(loss.detach())
        if wrong == "loss of the step before":
            value, self.last = getattr(self, "last", value), value
        if wrong == "loss of a part of the batch":
            half = batch.targets[: len(batch.targets) // 2]
            value = float(self.loss_of_batch(self.target_batch(half)).detach())
        self.losses.append(value)
        return value

    def state(self) -> State:
        """The parameters, perhaps those of a bias as a column."""
        state = super().state()
        if self.config.wrong == "state of another shape" and self.steps:
            state["layers.0.bias"] = state["layers.0.bias"][:, None]
        return state

    def predict(self, graph: Graph, nodes: Nodes) -> Floats:
        """Logits, perhaps of other parameters, in another order, of another graph or with a wrong row."""
        wrong = self.config.wrong
        if wrong == "predicts from the first parameters":
            self.model.load(self.first)
        graph = self.graph if wrong == "predicts on the trained graph" else graph
        nodes = np.sort(nodes) if wrong == "predicts in ascending order" else nodes
        logits = np.array(super().predict(graph, nodes))
        if wrong == "predicts one row of another node":
            logits[len(logits) // 2] = logits[0]
        return logits
