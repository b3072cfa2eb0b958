"""Scenario ``infer``: computing the scores of all nodes is timed."""

from typing import Any

import numpy as np

from backends.batches import BatchPlan
from backends.contract import Clock, Floats, Inferrer
from backends.registry import runtime
from datasets.graph import SPLITS, Graph
from harness.measure import metrics
from harness.planning.schema import RunConfig
from harness.scenario.base import EngineScenario
from harness.scenario.setup import spec_of, start_of, training_of


class Infer(EngineScenario):
    """An inferrer on the whole graph."""

    engine: Inferrer

    def __init__(self, config: RunConfig, graph: Graph) -> None:
        self.config, self.graph = config, graph
        self.spec = spec_of(config, graph)
        self.start = start_of(config, self.spec)
        # One part only: an engine may score all nodes in one pass, whatever the batches, so a part cannot be scaled up.
        self.batches = 1
        self.nodes = np.arange(graph.nodes)
        self.logits: Floats | None = None

    def prepare(self, clock: Clock, limit: int | None) -> None:
        """Build and prepare the inferrer; a limit does not apply."""
        self.engine = runtime(self.config.backend, "infer")
        plan = BatchPlan(self.nodes, self.config.training.batch_size, None, self.config.seed)
        self.engine.prepare(self.graph, self.spec, training_of(self.config), self.start, plan, clock)

    def run(self, index: int, clock: Clock) -> None:
        """Score the nodes."""
        self.logits = self.engine.infer(clock)

    def release(self) -> None:
        """Free the scores."""
        self.logits = None

    def metrics(self) -> dict[str, Any] | None:
        """Score the last answer; None for parameters drawn from a seed, and where no split has labelled nodes."""
        labelled = any(len(self.graph.nodes_of(split)) for split in SPLITS)
        if self.config.scenario.state is None or self.logits is None or not labelled:
            return None
        logits = self.logits
        return metrics.scores_of_splits(self.graph, lambda _, nodes: logits[nodes])
