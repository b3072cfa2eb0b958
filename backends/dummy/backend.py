"""Trainer and inferrer of the engine that tests the harness."""

from typing import Any

import numpy as np

from backends.batches import BatchPlan
from backends.contract import Clock, Floats, Nodes
from backends.dummy.config import DummyConfig
from backends.dummy.failures import fail
from backends.dummy.network import Dropout, NumpyNetwork, loss_and_gradient
from backends.dummy.optimizer import NumpyOptimizer
from backends.model import ModelSpec, State, TrainingSpec
from datasets.graph import Graph

SHARES = {"forward": 0.4, "backward": 0.5, "step": 0.1}


class DummyTrainer:
    """A trainer with simulated epochs; with ``learn`` it takes the optimizer's steps."""

    def __init__(self, config: DummyConfig) -> None:
        self.config, self.simulated = config, 0.0

    def now(self) -> float:
        """Simulated seconds: the harness reads this clock instead of its own."""
        return self.simulated

    def prepare(
        self, graph: Graph, spec: ModelSpec, training: TrainingSpec, state: State, plan: BatchPlan, clock: Clock
    ) -> None:
        """Take over graph and parameters; phase ``structure``."""
        self.graph, self.spec, self.training, self.plan = graph, spec, training, plan
        self._fail("prepare")
        with clock.phase("structure"):
            self.network = NumpyNetwork(graph, spec)
        self.load(state)

    def _fail(self, place: str) -> None:
        if self.config.fail_at == place:
            fail(self.config.fail)

    def load(self, state: State) -> None:
        """Take over parameters."""
        self.parameters = {name: np.array(value, dtype=np.float32) for name, value in state.items()}
        self.optimizer = NumpyOptimizer(self.training)
        self.predictions: dict[int, tuple[Graph, Floats]] = {}
        rates = self.training.dropout, self.training.attention_dropout
        self.dropout = Dropout(np.random.default_rng(self.training.seed), *rates)

    def epoch(self, index: int, clock: Clock) -> float:
        """Advance the simulated clock; with ``learn`` also take gradient steps."""
        if index >= self.config.fail_epoch:
            self._fail("epoch")
        losses, batches = [], self.plan.targets(index)
        for targets in batches:
            for phase, share in SHARES.items():
                with clock.phase(phase):
                    self.simulated += self.config.seconds * share
            losses.append(self._step(targets) if self.config.learn else 1.0 / (index + 1))
        return float(np.average(losses, weights=[len(targets) for targets in batches]))

    def _step(self, targets: Nodes) -> float:
        _, loss, gradients = self.loss_and_gradients(targets)
        self.optimizer.step(self.parameters, gradients)
        self.predictions = {}
        return loss

    def loss_and_gradients(self, targets: Nodes) -> tuple[Floats, float, dict[str, Floats]]:
        """Compute logits, loss and gradients of some targets, on the whole graph."""
        assert self.graph.labels is not None
        logits = self.network.forward(self.parameters, self.dropout)
        loss, target_gradient = loss_and_gradient(logits[targets], self.graph.labels[targets])
        logit_gradient = np.zeros_like(logits)
        logit_gradient[targets] = target_gradient
        gradients: dict[str, Floats] = dict(self.network.backward(logit_gradient))
        if self.config.fail == "wrong":
            name = next(iter(gradients))
            gradients[name] = gradients[name] * 1.001
        return logits[targets], loss, {name: value.astype(np.float32) for name, value in gradients.items()}

    def predict(self, graph: Graph, nodes: Nodes) -> Floats:
        """Logits on any graph, cached until the parameters change."""
        self._fail("predict")
        if id(graph) not in self.predictions:
            self.predictions[id(graph)] = graph, NumpyNetwork(graph, self.spec).forward(self.parameters)
        return self.predictions[id(graph)][1][nodes]

    def state(self) -> State:
        """Parameters as they are."""
        return dict(self.parameters)

    def spmm_operands(self) -> list[dict[str, Any]]:
        """One SpMM per layer, over the whole graph."""
        csr = self.network.edges.adjacency.csr
        widths = [self.spec.width_out(layer) * self.spec.heads_of(layer) for layer in range(self.spec.layers)]
        return [
            {"name": f"layers.{layer} forward", "csr": csr, "width": width, "itemsize": 8, "count": 1}
            for layer, width in enumerate(widths)
        ]

    def facts(self) -> dict[str, Any]:
        """Sizes of the SpMMs."""
        spmms = [(operand["csr"], operand["width"]) for operand in self.spmm_operands()]
        return {"spmm": [{"nnz": c.nnz, "rows": c.shape[0], "columns": c.shape[1], "width": w} for c, w in spmms]}

    def close(self) -> None:
        """Nothing runs between calls."""


class DummyInferrer:
    """An inferrer with simulated passes."""

    def __init__(self, config: DummyConfig) -> None:
        self.trainer = DummyTrainer(config)
        self.now = self.trainer.now

    def prepare(
        self, graph: Graph, spec: ModelSpec, training: TrainingSpec, state: State, plan: BatchPlan, clock: Clock
    ) -> None:
        """Prepare the trainer, whose network scores the nodes."""
        self.trainer.prepare(graph, spec, training, state, plan, clock)

    def infer(self, clock: Clock) -> Floats:
        """Score the plan's nodes in one simulated call."""
        trainer = self.trainer
        with clock.phase("forward"):
            trainer.simulated += trainer.config.seconds
        logits = trainer.predict(trainer.graph, trainer.plan.nodes)
        return logits * 1.001 if trainer.config.fail == "wrong" else logits

    def spmm_operands(self) -> list[dict[str, Any]]:
        """One SpMM per layer, over the whole graph."""
        return self.trainer.spmm_operands()

    def facts(self) -> dict[str, Any]:
        """Sizes of the SpMMs."""
        return self.trainer.facts()

    def close(self) -> None:
        """Nothing runs between calls."""
