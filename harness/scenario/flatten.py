"""Scenario ``flatten``: the neighbourhoods of all labelled nodes as records are timed."""

from collections.abc import Callable
from typing import Any

import numpy as np

from backends.batches import BatchPlan
from backends.contract import Clock, Flattener
from backends.registry import runtime
from datasets.graph import SPLITS, Graph
from harness.scenario.setup import spec_of, training_of
from harness.schema import RunConfig


class Flatten:
    """A flattener on the whole graph; ``training.batch_size`` and ``batch_limit`` take a part of the targets."""

    engine: Flattener

    def __init__(self, config: RunConfig, graph: Graph) -> None:
        self.config, self.graph = config, graph
        self.spec = spec_of(config, graph)
        labelled = np.sort(np.concatenate([graph.nodes_of(split) for split in SPLITS]))
        self.targets = labelled if len(labelled) else np.arange(graph.nodes)
        self.batches = self._plan(None).batches

    def _plan(self, limit: int | None) -> BatchPlan:
        return BatchPlan(self.targets, self.config.training.batch_size, limit, self.config.seed)

    @property
    def now(self) -> Callable[[], float] | None:
        """Simulated time of an engine that has one."""
        return getattr(self.engine, "now", None)

    def prepare(self, clock: Clock, limit: int | None) -> None:
        """Build and prepare the flattener; a limit takes the targets of the first batches."""
        self.engine = runtime(self.config.backend, "flatten")
        self.engine.prepare(self.graph, self.spec, training_of(self.config), self._plan(limit), clock)

    def run(self, index: int, clock: Clock) -> None:
        """Flatten the targets."""
        self.engine.flatten(clock)

    def accuracy(self, progress: Callable[[int, float], None]) -> dict[str, Any]:
        """Nothing to train."""
        return {}

    def metrics(self) -> dict[str, Any] | None:
        """Nothing to score."""
        return None

    def close(self) -> None:
        """Let the flattener end."""
        self.engine.close()
