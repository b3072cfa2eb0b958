"""Scenario ``sample``: drawing the neighbourhoods of all batches of an epoch is timed, without features and compute."""

from backends.batches import BatchPlan
from backends.contract import Clock, Sampler
from backends.registry import runtime
from datasets.graph import Graph
from harness.planning.schema import RunConfig
from harness.scenario.base import EngineScenario
from harness.scenario.setup import labelled_of, neighbourhood_spec_of, training_of


class Sample(EngineScenario):
    """A sampler on the whole graph; the targets are all labelled nodes, or all nodes where there are none."""

    engine: Sampler

    def __init__(self, config: RunConfig, graph: Graph) -> None:
        self.config, self.graph = config, graph
        self.spec, self.targets = neighbourhood_spec_of(config, graph), labelled_of(graph)
        self.batches = BatchPlan(self.targets, config.training.batch_size).batches

    def prepare(self, clock: Clock, limit: int | None) -> None:
        """Build and prepare the sampler; a limit keeps the first batches of an epoch."""
        self.engine = runtime(self.config.backend, "sample")
        self.plan = BatchPlan(self.targets, self.config.training.batch_size, limit, self.config.seed)
        self.engine.prepare(self.graph, self.spec, training_of(self.config), self.plan, clock)

    def draw(self, index: int) -> None:
        """Shuffle the targets into batches."""
        self.plan.targets(index)

    def run(self, index: int, clock: Clock) -> None:
        """Draw one epoch."""
        self.engine.sample(index, clock)
