"""Parity gate of training: a step of ``epoch`` must move parameters as its optimizer says, and ``predict`` must follow.

The other parts of the gate compare a batch's gradients; here each epoch is one step. The definition takes the same step
from the parameters that the engine had before it, so that errors do not add up.
"""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from backends.batches import BatchPlan
from backends.contract import Nodes, Trainer
from backends.model import State, TrainingSpec
from backends.registry import load_object, runtime
from datasets.graph import Graph
from harness.measure.clock import Clock
from harness.planning.schema import RunConfig
from harness.scenario.setup import spec_of, training_of
from harness.verify.comparison import (
    ALLOWED,
    INFINITE,
    TRIES,
    UNITS,
    Answer,
    Expected,
    error_of,
    expected_of,
    multiple_of,
    raise_if_wrong,
)
from harness.verify.models import DEFINITION, state_of
from harness.verify.moves import moves_of

STEPS = 3  # agl and blocksparse record the first one, and repeat its kernels from then on
RATE = 0.01  # of the gate's steps, whatever the cell's: a large one would leave nothing to compare after the first
PARTS = 3  # batches that the targets are cut into, where engines take those of the plan
NAME = f"{STEPS} steps"


def verify_steps(config: RunConfig, graph: Graph) -> dict[str, Any]:
    """Train a few steps on the gate's small graph and compare each, then the predictions; raises Incorrect.

    Returns what ``compare`` returns: ``forward`` is the worst of losses and predictions, ``gradient`` of parameters.
    Empty for engines whose workers do not step together, as what they compute depends on who comes first.
    """
    backend = config.backend.for_parity_gate()
    if not backend.steps_together:
        return {}
    subject = StepsSubject(config, graph)
    parity: dict[str, Any] = {}
    for attempt in range(TRIES):
        multiples = subject.multiples(config.seed + 1000 * attempt)
        parity[NAME] = _summary(graph, multiples, attempt + 1)
        if not parity[NAME]["wrong"]:
            break
    raise_if_wrong(config, NAME, parity)
    return parity


def _summary(graph: Graph, multiples: dict[str, float], tries: int) -> dict[str, Any]:
    forward = {name: value for name, value in multiples.items() if not name.startswith("step of ")}
    return {
        "nodes": graph.nodes,
        "edges": graph.csr.nnz,
        "forward": max(forward.values()),
        "gradient": max((value for name, value in multiples.items() if name not in forward), default=0.0),
        "tensor": max(multiples, key=lambda name: multiples[name]),
        "tries": tries,
        "wrong": any(not value <= ALLOWED for value in multiples.values()),
    }


@dataclass
class _Point:
    """The definition's answer for a batch at given parameters, or its scores of all nodes where there is no batch."""

    graph: Graph
    spec: Any
    parameters: State
    targets: Nodes | None

    def definition(self, seed: int, arithmetic: Any) -> Answer:
        """Compute in an arithmetic; the seed draws nothing, as all neighbours are used."""
        if self.targets is None:
            function, targets = load_object(f"{DEFINITION}:scores"), np.arange(self.graph.nodes)
            return function(self.graph, self.spec, self.parameters, targets, 0, arithmetic), None, {}
        function = load_object(f"{DEFINITION}:loss_and_gradients")
        answer: Answer = function(self.graph, self.spec, self.parameters, self.targets, 0, arithmetic)
        return answer


class StepsSubject:
    """A fresh trainer per state, without dropout, all neighbours; each epoch is one step."""

    def __init__(self, config: RunConfig, graph: Graph) -> None:
        self.backend, self.graph = config.backend.for_parity_gate(), graph
        self.spec = replace(spec_of(config, graph), fanouts=())
        self.training: TrainingSpec = replace(training_of(config).without_dropout(), rate=RATE)
        self.unit = UNITS[config.training.dtype]
        targets = graph.nodes_of("train")
        size = None if config.training.batch_size is None else len(targets)
        if size is not None and self.backend.takes_planned_batches:
            size = min(config.training.batch_size or size, -(-size // PARTS))
        self.plan = BatchPlan(targets, size, 1, config.seed)

    def multiples(self, seed: int) -> dict[str, float]:
        """The error of each loss, step and prediction over what rounding may do to it."""
        state = state_of(self.spec, seed, self.graph)
        engine: Trainer = runtime(self.backend, "train")
        engine.prepare(self.graph, self.spec, self.training, state, self.plan, Clock())
        try:
            return self._steps(engine, seed, state) | self._predictions(engine, seed)
        finally:
            engine.close()

    def _steps(self, engine: Trainer, seed: int, state: State) -> dict[str, float]:
        multiples: dict[str, float] = {}
        moves = moves_of(self.training, self.unit, state)
        for index in range(STEPS):
            expected = self._expected(seed, state, self.plan.targets(index)[0])
            loss = engine.epoch(index, Clock())
            multiples[f"loss of step {index + 1}"] = _multiple("loss", np.array(loss), expected)
            after = engine.state()
            for name, before in state.items():
                moves[name].take(before, expected.tensors[name], expected.deviations[name])
                multiple = moves[name].multiple(before, after.get(name))
                key = f"step of {name}"
                multiples[key] = max(multiples.get(key, 0.0), multiple)
            state = {name: after.get(name, before) for name, before in state.items()}
        return multiples

    def _predictions(self, engine: Trainer, seed: int) -> dict[str, float]:
        expected = self._expected(seed, engine.state(), None)
        scores = engine.predict(self.graph, np.arange(self.graph.nodes))
        return {"predictions": _multiple("logits", scores, expected)}

    def _expected(self, seed: int, parameters: State, targets: Nodes | None) -> Expected:
        return expected_of(_Point(self.graph, self.spec, parameters, targets), seed, self.unit)


def _multiple(name: str, tensor: Any, expected: Expected) -> float:
    error = error_of(tensor, expected.tensors[name])
    return INFINITE if error >= INFINITE else multiple_of(error, expected.deviations[name])
