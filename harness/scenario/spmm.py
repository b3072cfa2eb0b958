"""Scenario ``spmm``: one aggregation of a model, forward and backward, is timed."""

from backends.contract import Clock, Multiplier
from backends.registry import runtime
from datasets.graph import Graph
from harness.planning.schema import RunConfig
from harness.scenario.base import EngineScenario
from harness.scenario.setup import product_spec_of, training_of


class Spmm(EngineScenario):
    """A multiplier on the whole graph; the model says what is aggregated, ``model.hidden`` how wide."""

    engine: Multiplier

    def __init__(self, config: RunConfig, graph: Graph) -> None:
        self.config, self.graph, self.batches = config, graph, 1
        self.spec = product_spec_of(config)

    def prepare(self, clock: Clock, limit: int | None) -> None:
        """Build and prepare the multiplier; a limit does not apply."""
        self.engine = runtime(self.config.backend, "spmm")
        self.engine.prepare(self.graph, self.spec, training_of(self.config), clock)

    def run(self, index: int, clock: Clock) -> None:
        """Aggregate once, forward and backward."""
        self.engine.multiply(clock)

    def release(self) -> None:
        """Free the output and the gradients."""
        self.engine.release()
