"""Errors of an engine's tensors against their definition, and the bounds beyond which they are wrong.

The error of a tensor is ``max|a - r| / max(max|r|, 1e-3 * largest gradient of its layer)``. A forward error above its
bound is wrong at once. A gradient above it is tried from two more states and wrong only if it is above in all three:
a ReLU whose sign flips between float32 and float64 fails by chance, a wrong gradient always.
"""

from collections.abc import Mapping
from typing import Any, Protocol

import numpy as np

from backends.contract import Floats
from datasets.graph import Graph
from harness.planning.schema import RunConfig
from harness.verify.graphs import slice_of, small_graph
from harness.verify.outcome import Incorrect

FORWARD = {"float32": 1e-5, "tf32": 5e-3, "bf16": 2e-2}
GRADIENT = {"float32": 2e-5, "tf32": 5e-3, "bf16": 2e-2}
TRIES = 3
INFINITE = 1e30  # records must not contain an infinity
Answer = tuple[Floats, float | None, dict[str, Floats]]


class Subject(Protocol):
    """An engine and its definition on one graph; both answer for the state of a seed."""

    graph: Graph

    def answer(self, seed: int) -> Answer:
        """Let the engine compute: output, loss where there is one, gradients."""
        ...

    def definition(self, seed: int) -> Answer:
        """Compute the same in float64."""
        ...


def parts_of(config: RunConfig, graph: Graph) -> dict[str, Graph]:
    """Name the graphs on which an engine is compared: a small one and a slice of the cell's own."""
    return {
        "small graph": small_graph(graph.task, graph.classes, weighted=config.model.name == "gcn"),
        **slice_of(graph, config),
    }


def verify_all(config: RunConfig, subjects: Mapping[str, Subject]) -> dict[str, Any]:
    """Compare an engine on several graphs; raises Incorrect for the first on which it is wrong.

    Returns per graph: nodes, edges, the worst forward and gradient error, the worst tensor, the states tried.
    """
    forward, gradient = FORWARD[config.training.dtype], GRADIENT[config.training.dtype]
    parity: dict[str, Any] = {}
    for name, subject in subjects.items():
        parity[name] = compare(subject, config.seed, forward, gradient)
        if parity[name].pop("wrong"):
            worst = parity[name]
            raise Incorrect(
                f"backend {config.backend.name} disagrees with the definition on {name}: {worst['tensor']} is off by "
                f"{max(worst['forward'], worst['gradient']):.1e}, allowed are {forward:g} forward and {gradient:g} for "
                "gradients",
                parity,
            )
    return parity


def compare(subject: Subject, seed: int, forward_bound: float, gradient_bound: float) -> dict[str, Any]:
    """Compare one engine on one graph; gradients count with their least error over the states tried."""
    forward: dict[str, float] = {}
    gradients: dict[str, float] = {}
    for attempt in range(TRIES):
        answer, definition = (side(seed + 1000 * attempt) for side in (subject.answer, subject.definition))
        errors = forward_errors(answer, definition)
        forward = {name: max(error, forward.get(name, 0.0)) for name, error in errors.items()}
        errors = gradient_errors(answer[2], definition[2])
        gradients = {name: min(error, gradients.get(name, error)) for name, error in errors.items()}
        wrong_forward = max(forward.values()) > forward_bound
        wrong_gradient = max(gradients.values(), default=0.0) > gradient_bound
        if wrong_forward or not wrong_gradient:
            break
    relative = {name: error / forward_bound for name, error in forward.items()}
    relative |= {name: error / gradient_bound for name, error in gradients.items()}
    return {
        "nodes": subject.graph.nodes,
        "edges": subject.graph.csr.nnz,
        "forward": max(forward.values()),
        "gradient": max(gradients.values(), default=0.0),
        "tensor": max(relative, key=lambda name: relative[name]),
        "tries": attempt + 1,
        "wrong": wrong_forward or wrong_gradient,
    }


def error_of(tensor: Floats, definition: Floats, least: float = 0.0) -> float:
    """Largest difference over the larger of ``max|definition|`` and ``least``; infinite for another shape or NaN."""
    if np.shape(tensor) != np.shape(definition):
        return INFINITE
    difference = np.abs(np.asarray(tensor, dtype=np.float64) - definition).max(initial=0.0)
    scale = max(float(np.abs(definition).max(initial=0.0)), least, 1e-30)
    return float(difference / scale) if np.isfinite(difference) else INFINITE


def forward_errors(answer: Answer, definition: Answer) -> dict[str, float]:
    """Errors of logits and loss."""
    errors = {"logits": error_of(answer[0], definition[0])}
    if answer[1] is not None and definition[1] is not None:
        errors["loss"] = error_of(np.array(answer[1]), np.array(definition[1]))
    return errors


def gradient_errors(gradients: dict[str, Floats], definition: dict[str, Floats]) -> dict[str, float]:
    """Error of every gradient of the definition; one that the engine lacks has the error ``INFINITE``."""
    largest: dict[str, float] = {}
    for name, value in definition.items():
        layer = name.rpartition(".")[0]
        largest[layer] = max(largest.get(layer, 0.0), float(np.abs(value).max(initial=0.0)))
    return {
        name: error_of(gradients[name], value, 1e-3 * largest[name.rpartition(".")[0]])
        if name in gradients
        else INFINITE
        for name, value in definition.items()
    }
