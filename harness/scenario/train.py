"""Scenario ``train``: an optimization epoch is timed; the accuracy pass then trains from the start to the end."""

import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from backends.batches import BatchPlan
from backends.contract import Clock, Trainer
from backends.model import State
from backends.registry import runtime
from datasets.graph import Graph
from harness.measure import clock as clocks
from harness.measure import metrics
from harness.planning.schema import RunConfig
from harness.scenario.base import EngineScenario
from harness.scenario.setup import save_state, spec_of, start_of, training_of

if TYPE_CHECKING:
    from harness.measure.dense import DenseFloor
    from harness.measure.parts import EpochParts

LONGEST_CURVE = 200


class Train(EngineScenario):
    """A trainer on the training view of a graph."""

    engine: Trainer

    def __init__(self, config: RunConfig, graph: Graph) -> None:
        self.config, self.graph, self.view = config, graph, graph.training_view()
        self.nodes = self.view.nodes_of("train")
        if not len(self.nodes):
            raise ValueError(
                f"data set {graph.name} has no labelled training nodes: choose scenario=infer, or split "
                "the labelled nodes of tables by dataset.options.split='\"0.8,0.1,0.1\"'"
            )
        self.spec, self.training = spec_of(config, graph), training_of(config)
        self.start = start_of(config, self.spec)
        self.batches = BatchPlan(self.nodes, config.training.batch_size).batches
        self.limit: int | None = None

    def prepare(self, clock: Clock, limit: int | None) -> None:
        """Build and prepare the trainer."""
        self.limit = limit
        self.engine = runtime(self.config.backend, "train")
        self.plan = BatchPlan(self.nodes, self.config.training.batch_size, limit, self.config.seed)
        self.engine.prepare(self.view, self.spec, self.training, self.start, self.plan, clock)

    def draw(self, index: int) -> None:
        """Shuffle the targets into batches."""
        self.plan.targets(index)

    def run(self, index: int, clock: Clock) -> float:
        """Train one epoch."""
        return float(self.engine.epoch(index, clock))

    def dense_floor(self) -> "DenseFloor | None":
        """Least time of a full-batch epoch's dense products in float32; mini batches have no such floor."""
        if self.config.training.batch_size is not None or self.config.training.dtype != "float32":
            return None
        # Not imported above: it imports torch, which a cell whose engine works without torch must not load.
        from harness.measure.dense import dense_floor

        return dense_floor(self.spec, self.view, self.nodes, self.config.threads, self.config.device)

    def parts(self, seconds: float) -> "EpochParts | None":
        """What an epoch's seconds are for; ``None`` for mini batches, and for engines that work without torch."""
        if self.config.training.batch_size is not None or "torch" not in sys.modules:
            return None
        # Not imported above: it imports torch, which a cell whose engine works without torch must not load.
        from harness.measure.parts import EpochShape, parts_of

        nodes, edges = self.view.nodes, self.view.csr.nnz
        shape = EpochShape(nodes, (edges, edges + nodes), self.view.width)
        return parts_of(lambda: self.run(0, clocks.Clock()), shape, seconds)

    def accuracy(self, progress: Callable[[int, float], None]) -> dict[str, Any]:
        """Train from the initial state to ``epochs`` or ``patience``; score test at the best validation epoch.

        Patience counts the epochs since the best one: a higher validation score, or as high with a lower loss. It ends
        the training at an epoch that is evaluated.
        """
        if self.limit is not None:
            self.engine.close()
            self.prepare(clocks.Clock(), None)
        self.engine.load(self.start)
        curve = ValidationCurve(self.config.scenario.target)
        for epoch in range(self.config.training.epochs):
            loss = self.run(epoch, clocks.Clock())
            if not np.isfinite(loss):
                advice = f"lower training.rate={self.training.rate}, or scale large features"
                raise ValueError(f"the loss of epoch {epoch} is {loss}: {advice}")
            last = epoch + 1 == self.config.training.epochs
            if last or (epoch + 1) % self.config.training.evaluate_every == 0:
                curve.add(epoch + 1, *self._validate(), self.engine.state)
                progress(epoch + 1, curve.best_score)
                if 0 < self.config.training.patience <= epoch + 1 - curve.best_epoch:
                    break
        return self._scored(curve, epoch + 1)

    def _validate(self) -> tuple[float, float]:
        """Loss and score on the validation nodes, or on the training nodes where there are none."""
        nodes = self.graph.nodes_of("validation")
        return metrics.loss_and_score(
            self.graph, nodes if len(nodes) else self.graph.nodes_of("train"), self.engine.predict
        )

    def _scored(self, curve: "ValidationCurve", epochs: int) -> dict[str, Any]:
        self.engine.load(curve.best_state)
        if self.config.scenario.save_state is not None:
            save_state(Path(self.config.scenario.save_state), curve.best_state)
        scores = metrics.scores_of_splits(self.graph, self.engine.predict)
        scores |= {"best_epoch": curve.best_epoch, "epochs_run": epochs}
        if self.config.scenario.target is not None:
            scores |= {"target": self.config.scenario.target, "epochs_to_target": curve.epochs_to_target}
        return {"metrics": scores, "validation": thinned(curve.points, curve.best_epoch)}


@dataclass
class ValidationCurve:
    """The validation curve so far, its best epoch, and the first epoch that reached the target."""

    target: float | None
    points: list[list[float]] = field(default_factory=list)
    best_epoch: int = 0
    best_score: float = float("-inf")
    best_loss: float = float("inf")
    best_state: State = field(default_factory=dict)
    epochs_to_target: int | None = None

    def add(self, epoch: int, loss: float, score: float, state: Callable[[], State]) -> None:
        """Add a point; keep a copy of the state when it is the best."""
        self.points.append([epoch, loss, score])
        if self.epochs_to_target is None and self.target is not None and score >= self.target:
            self.epochs_to_target = epoch
        if (score, -loss) > (self.best_score, -self.best_loss):
            self.best_epoch, self.best_score, self.best_loss = epoch, score, loss
            self.best_state = {name: np.array(value) for name, value in state().items()}


def thinned(points: list[list[float]], best_epoch: int) -> list[list[float]]:
    """Thin a curve to about ``LONGEST_CURVE`` points, the last and the best among them."""
    step = -(-len(points) // LONGEST_CURVE)
    return [point for i, point in enumerate(points) if i % step == 0 or point[0] == best_epoch or i == len(points) - 1]
