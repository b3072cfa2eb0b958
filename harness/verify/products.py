"""Parity gate of ``spmm``: the product and its gradients against the float64 definition."""

from dataclasses import replace
from typing import Any

from backends.registry import load_object, runtime
from datasets.graph import Graph
from harness.measure.clock import Clock
from harness.planning.schema import RunConfig
from harness.scenario.setup import product_spec_of, training_of
from harness.verify.comparison import Answer, parts_of, spoil, verify_all
from harness.verify.models import DEFINITION


def verify_product(config: RunConfig, graph: Graph) -> dict[str, Any]:
    """Compare the multiplier of ``config`` on a small graph and on a slice of ``graph``; raises Incorrect."""
    return verify_all(config, {name: ProductSubject(config, part) for name, part in parts_of(config, graph).items()})


class ProductSubject:
    """The multiplier of one backend on one graph; the state's seed draws its operands."""

    def __init__(self, config: RunConfig, graph: Graph) -> None:
        self.config, self.graph, self.spec = config, graph, product_spec_of(config)

    def answer(self, seed: int) -> Answer:
        """Let a new multiplier compute the product of the operands of ``seed``, and its gradients."""
        engine = runtime(self.config.backend, "spmm")
        engine.prepare(self.graph, self.spec, replace(training_of(self.config), seed=seed), Clock())
        try:
            engine.multiply(Clock())
            out, gradients = engine.products()
            # the calls that are timed follow another one, whose answer must not be theirs
            spoil(out, *gradients.values())
            engine.multiply(Clock())
            out, gradients = engine.products()
            return out, None, gradients
        finally:
            engine.close()

    def definition(self, seed: int, arithmetic: Any) -> Answer:
        """Compute the same from the definition."""
        out, gradients = load_object(f"{DEFINITION}:products")(self.graph, self.spec, seed, arithmetic)
        return out, None, gradients
