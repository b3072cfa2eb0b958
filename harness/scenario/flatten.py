"""Scenario ``flatten``: writing the neighbourhoods of all labelled nodes as records is timed."""

from backends.batches import BatchPlan
from backends.contract import Clock, Flattener
from backends.registry import runtime
from datasets.graph import Graph
from harness.planning.schema import RunConfig
from harness.scenario.base import EngineScenario
from harness.scenario.setup import labelled_of, neighbourhood_spec_of, training_of


class Flatten(EngineScenario):
    """A flattener on the whole graph; ``training.batch_size`` and ``batch_limit`` take a part of the targets."""

    engine: Flattener

    def __init__(self, config: RunConfig, graph: Graph) -> None:
        self.config, self.graph = config, graph
        self.spec, self.targets = neighbourhood_spec_of(config, graph), labelled_of(graph)
        self.batches = BatchPlan(self.targets, config.training.batch_size).batches

    def prepare(self, clock: Clock, limit: int | None) -> None:
        """Build and prepare the flattener; a limit takes the targets of the first batches."""
        self.engine = runtime(self.config.backend, "flatten")
        self.plan = BatchPlan(self.targets, self.config.training.batch_size, limit, self.config.seed)
        self.engine.prepare(self.graph, self.spec, training_of(self.config), self.plan, clock)

    def run(self, index: int, clock: Clock) -> None:
        """Flatten the targets."""
        self.engine.flatten(clock)
