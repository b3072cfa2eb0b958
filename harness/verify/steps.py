"""Parity gate of training: a step of ``epoch`` must move parameters as its optimizer says, and ``predict`` must follow.

The other parts of the gate compare a batch's gradients; here each epoch is one step. The definition takes the same step
from the parameters that the engine had before it, so that errors do not add up. Then one epoch of the same batches must
end where the single steps did.
"""

from contextlib import closing
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any, Protocol

import numpy as np

from backends.batches import BatchPlan
from backends.contract import Nodes, Trainer
from backends.model import State, TrainingSpec
from backends.registry import load_object, runtime
from datasets.graph import Graph
from datasets.randomness import permutation
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
from harness.verify.moves import Array, moves_of

STEPS = 3  # agl and blocksparse record the first one, and repeat its kernels from then on
# Of the gate's steps, whatever the cell's: a large one would leave nothing to compare after the first. No engine has
# this one by default.
RATE = 0.0137
PARTS = 3  # batches that the targets are cut into, where engines take those of the plan
NAME = f"{STEPS} steps"
SHARE = 1 / 16  # of the way of an epoch: how far its end may be from that of single steps, whose rounding can differ


def verify_steps(config: RunConfig, graph: Graph) -> dict[str, Any]:
    """Train a few steps on the gate's small graph and compare each, then the predictions; raises Incorrect.

    Returns what ``compare`` returns: ``forward`` is the worst of losses and predictions, ``gradient`` of parameters.
    Empty for engines whose workers do not step together, as what they compute depends on who comes first.
    """
    if not config.backend.for_parity_gate().steps_together:
        return {}
    return verify_tried(config, NAME, StepsSubject(config, graph))


class Tried(Protocol):
    """What an engine computes from the state of a seed, as multiples of what rounding may do to it."""

    graph: Graph

    def multiples(self, seed: int) -> dict[str, float]:
        """Multiples by name; those of parameters begin with ``step of``."""
        ...


def verify_tried(config: RunConfig, name: str, subject: Tried) -> dict[str, Any]:
    """What ``compare`` returns, under a name; raises Incorrect.

    As there, a forward tensor is wrong at once, and a step of a parameter only if it is so from every state tried.
    """
    parity: dict[str, Any] = {}
    for attempt in range(TRIES):
        multiples = subject.multiples(config.seed + 1000 * attempt)
        parity[name] = _summary(subject.graph, multiples, attempt + 1)
        if is_wrong(_forward(multiples)) or not is_wrong(multiples):
            break
    raise_if_wrong(config, name, parity)
    return parity


def _forward(multiples: dict[str, float]) -> dict[str, float]:
    """The multiples of losses and predictions alone."""
    return {name: value for name, value in multiples.items() if not name.startswith("step of ")}


def _summary(graph: Graph, multiples: dict[str, float], tries: int) -> dict[str, Any]:
    forward = _forward(multiples)
    return {
        "nodes": graph.nodes,
        "edges": graph.csr.nnz,
        "forward": max(forward.values()),
        "gradient": max((value for name, value in multiples.items() if name not in forward), default=0.0),
        "tensor": max(multiples, key=lambda name: multiples[name]),
        "tries": tries,
        "wrong": is_wrong(multiples),
    }


def is_wrong(multiples: dict[str, float]) -> bool:
    """Whether something is further off than rounding takes it."""
    return any(not value <= ALLOWED for value in multiples.values())


@dataclass
class Evaluation:
    """The definition's answer for a batch at given parameters, or its scores alone."""

    graph: Graph
    spec: Any
    parameters: State
    targets: Nodes
    drawn: int = 0  # the seed of the edges, where not all neighbours are used
    scores_alone: bool = False

    def definition(self, seed: int, arithmetic: Any) -> Answer:
        """Compute in an arithmetic; the seed draws nothing."""
        function = load_object(f"{DEFINITION}:{'scores' if self.scores_alone else 'loss_and_gradients'}")
        answer = function(self.graph, self.spec, self.parameters, self.targets, self.drawn, arithmetic)
        return (answer, None, {}) if self.scores_alone else answer


class SingleBatches(BatchPlan):
    """A plan whose epochs have one batch each: those of its first epoch, in turn."""

    def targets(self, epoch: int) -> list[Nodes]:
        """The one batch of an epoch."""
        batches = super().targets(0)
        return [batches[epoch % len(batches)]]


@dataclass
class _Path:
    """The states that single steps led through, the first one before them, and what rounding may do to each step."""

    states: list[State]
    bounds: list[dict[str, Array]] = field(default_factory=list)

    def multiple(self, name: str, after: Any, steps: int) -> float:
        """How far a parameter is from where ``steps`` steps led; allowed are ``ALLOWED``."""
        values = [np.asarray(state[name], dtype=np.float64) for state in self.states[: steps + 1]]
        if error_of(after, values[-1]) >= INFINITE:
            return INFINITE
        way = sum(float(np.abs(end - start).max(initial=0.0)) for start, end in pairwise(values))
        bound = sum(bounds[name] for bounds in self.bounds[:steps]) + SHARE * way
        return float((np.abs(after - values[-1]) / bound).max(initial=0.0)) * ALLOWED


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
        self.plan = SingleBatches(targets, size, None, config.seed)
        self.epoch_plan = BatchPlan(targets, size, STEPS, config.seed)
        self.predicted = permutation(config.seed, "predicted nodes", graph.nodes)[: graph.nodes // 2 + 1]
        self.renumbered = graph.subgraph(permutation(config.seed, "renumbered nodes", graph.nodes))

    def multiples(self, seed: int) -> dict[str, float]:
        """The error of each loss, step and prediction over what rounding may do to it, up to the first wrong one."""
        path = _Path([state_of(self.spec, seed, self.graph)])
        with closing(self._prepared(path.states[0], self.plan)) as engine:
            multiples = self._steps(engine, seed, path)
            if not is_wrong(multiples):
                multiples |= self._predictions(engine, seed)
        if not is_wrong(multiples) and len(self.epoch_plan.targets(0)) > 1:
            multiples |= self._epoch(path)
        return multiples

    def _prepared(self, state: State, plan: BatchPlan) -> Trainer:
        engine: Trainer = runtime(self.backend, "train")
        engine.prepare(self.graph, self.spec, self.training, state, plan, Clock())
        return engine

    def _steps(self, engine: Trainer, seed: int, path: _Path) -> dict[str, float]:
        """Single steps, each from where the one before ended; from a wrong end the definition may not even compute."""
        multiples: dict[str, float] = {}
        moves = moves_of(self.training, self.unit, path.states[0])
        for index in range(STEPS):
            state = path.states[-1]
            batch = Evaluation(self.graph, self.spec, state, self.plan.targets(index)[0])
            expected = expected_of(batch, seed, self.unit)
            loss = engine.epoch(index, Clock())
            multiples[f"loss of step {index + 1}"] = multiple("loss", np.array(loss), expected)
            after = engine.state()
            for name, before in state.items():
                moves[name].take(before, expected.tensors[name], expected.deviations[name])
                key = f"step of {name}"
                multiples[key] = max(multiples.get(key, 0.0), moves[name].multiple(before, after.get(name)))
            if is_wrong(multiples):
                break
            # copied: an engine may show its own parameters, which the next step moves
            path.states.append({name: np.array(after[name]) for name in state})
            path.bounds.append({name: moves[name].bound for name in state})
        return multiples

    def _predictions(self, engine: Trainer, seed: int) -> dict[str, float]:
        """Predictions of a part of the nodes, not in ascending order, also on another graph than the trained one."""
        state = engine.state()
        multiples: dict[str, float] = {}
        for name, graph in (("predictions", self.graph), ("predictions on another graph", self.renumbered)):
            evaluation = Evaluation(graph, self.spec, state, self.predicted, scores_alone=True)
            scores = engine.predict(graph, self.predicted)
            multiples[name] = multiple("logits", scores, expected_of(evaluation, seed, self.unit))
        return multiples

    def _epoch(self, path: _Path) -> dict[str, float]:
        """An epoch of the batches of the single steps, from the same state."""
        steps = len(self.epoch_plan.targets(0))
        with closing(self._prepared(path.states[0], self.epoch_plan)) as engine:
            engine.epoch(0, Clock())
            after = {name: np.array(value) for name, value in engine.state().items()}
        return {
            f"step of {name}, {steps} in an epoch": path.multiple(name, after.get(name), steps)
            for name in path.states[0]
        }


def multiple(name: str, tensor: Any, expected: Expected) -> float:
    """The error of a tensor over its deviation."""
    error = error_of(tensor, expected.tensors[name])
    return INFINITE if error >= INFINITE else multiple_of(error, expected.deviations[name])
