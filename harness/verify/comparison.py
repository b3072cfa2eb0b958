"""Errors of an engine's tensors, as multiples of what rounding may do to them.

The definition is evaluated several times with random rounding errors of the engine's type in every operation (Monte
Carlo arithmetic, Parker 1997), and once in the engine's type itself, where the errors of a sum of equal terms have
all one sign. The largest difference to the exact tensor is its deviation; an engine's tensor is wrong when its error
exceeds ``ALLOWED`` times that. A forward tensor is wrong at once. A gradient is tried from two more states and wrong
only if it is so in all three: a ReLU whose sign flips between float32 and float64 fails by chance, a wrong gradient
always.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from backends.contract import Floats, Unsupported
from backends.model_names import WEIGHTED
from backends.registry import load_object
from datasets.features import SparseFeatures
from datasets.graph import Graph
from datasets.randomness import stream
from harness.planning.schema import RunConfig
from harness.verify.graphs import slice_of, small_graph, with_few_features
from harness.verify.outcome import Incorrect

ARITHMETIC = "backends.reference.arithmetic"
# The definition is float64 itself: at 2^-53 its own rounding, with one sign in a sum of equal terms, would be an error.
UNITS = {"float32": 2.0**-24, "float64": 2.0**-50, "tf32": 2.0**-11, "bf16": 2.0**-8}
ALLOWED = 16.0  # times the deviation
RUNS = 4
TRIES = 3
INFINITE = 1e30  # records must not contain an infinity
Answer = tuple[Floats, float | None, dict[str, Floats]]


class Defined(Protocol):
    """What has a definition, which answers for the state of a seed."""

    def definition(self, seed: int, arithmetic: Any) -> Answer:
        """Compute output, loss and gradients in an arithmetic of ``backends.reference.arithmetic``."""
        ...


class Subject(Defined, Protocol):
    """An engine and its definition on one graph; both answer for the state of a seed."""

    graph: Graph

    def answer(self, seed: int) -> Answer:
        """Let the engine compute: output, loss where there is one, gradients."""
        ...


@dataclass(frozen=True)
class Expected:
    """The exact tensors of one state by name, and how far rounding takes each of them."""

    tensors: dict[str, Floats]
    deviations: dict[str, float]

    def multiples(self, answer: Answer) -> dict[str, float]:
        """The error of each tensor over its deviation; ``INFINITE`` for one that is absent, misshapen or not finite."""
        tensors = tensors_of(answer)
        return {
            name: multiple_of(error_of(tensors.get(name), exact), self.deviations[name])
            for name, exact in self.tensors.items()
        }


def parts_of(config: RunConfig, graph: Graph) -> dict[str, Graph]:
    """Name the graphs on which an engine is compared: a small one and a slice of the cell's own.

    The small one has sparse features where the cell's are.
    """
    edge_width = 0 if graph.edge_features is None or config.model.name != "gat" else graph.edge_features.shape[1]
    small = small_graph(graph.task, graph.classes, weighted=config.model.name in WEIGHTED, edge_width=edge_width)
    return {
        "small graph": with_few_features(small) if isinstance(graph.features, SparseFeatures) else small,
        **slice_of(graph, config),
    }


def verify_all(config: RunConfig, subjects: Mapping[str, Subject]) -> dict[str, Any]:
    """Compare an engine on several graphs; raises Incorrect for the first on which it is wrong.

    Returns per graph: nodes, edges, the worst forward and gradient multiple, the worst tensor, the states tried.
    """
    parity: dict[str, Any] = {}
    for name, subject in subjects.items():
        parity[name] = compare(subject, config.seed, UNITS[config.training.dtype])
        raise_if_wrong(config, name, parity)
    return parity


def raise_if_wrong(config: RunConfig, name: str, parity: dict[str, Any]) -> None:
    """Drop ``wrong`` from the newest comparison; raises Incorrect where it is set."""
    worst = parity[name]
    if worst.pop("wrong"):
        multiple = max(worst["forward"], worst["gradient"])
        size = (
            "of another shape, absent or not finite" if multiple >= INFINITE else f"{multiple:.3g} times that far off"
        )
        raise Incorrect(
            f"backend {config.backend.name} disagrees with the definition on {name}: rounding errors take "
            f"{worst['tensor']} up to {ALLOWED:g} times as far as in the definition, here it is {size}",
            parity,
        )


def compare(subject: Subject, seed: int, unit: float) -> dict[str, Any]:
    """Compare one engine on one graph; gradients count with their least multiple over the states tried."""
    forward: dict[str, float] = {}
    gradients: dict[str, float] = {}
    for attempt in range(TRIES):
        state = seed + 1000 * attempt
        multiples = expected_of(subject, state, unit).multiples(subject.answer(state))
        for name, multiple in multiples.items():
            if name in FORWARD:
                forward[name] = max(multiple, forward.get(name, 0.0))
            else:
                gradients[name] = min(multiple, gradients.get(name, multiple))
        wrong_forward, wrong_gradient = (any(not m <= ALLOWED for m in part.values()) for part in (forward, gradients))
        if wrong_forward or not wrong_gradient:
            break
    both = forward | gradients
    return {
        "nodes": subject.graph.nodes,
        "edges": subject.graph.csr.nnz,
        "forward": max(forward.values()),
        "gradient": max(gradients.values(), default=0.0),
        "tensor": max(both, key=lambda name: both[name]),
        "tries": attempt + 1,
        "wrong": wrong_forward or wrong_gradient,
    }


FORWARD = ("logits", "loss")


def tensors_of(answer: Answer) -> dict[str, Floats]:
    """Output, loss and gradients of an answer, by name."""
    output, loss, gradients = answer
    return {"logits": output} | ({} if loss is None else {"loss": np.array(loss)}) | gradients


def expected_of(subject: Defined, seed: int, unit: float) -> Expected:
    """Evaluate the definition exactly and with rounding errors."""
    exact = load_object(f"{ARITHMETIC}:Arithmetic")()
    tensors = tensors_of(subject.definition(seed, exact))
    sizes: dict[Any, Any] = {}
    noisy = load_object(f"{ARITHMETIC}:NoisyArithmetic")
    arithmetics = [noisy(unit, stream(seed, f"rounding {run}") >> 1, exact.sides, sizes) for run in range(RUNS)]
    if unit == UNITS["float32"]:
        arithmetics.append(load_object(f"{ARITHMETIC}:single")(exact.sides))
    deviations = dict.fromkeys(tensors, 0.0)
    for arithmetic in arithmetics:
        for name, tensor in tensors_of(subject.definition(seed, arithmetic)).items():
            deviations[name] = max(deviations[name], error_of(tensor, tensors[name]))
    if overflowing := [name for name, deviation in deviations.items() if deviation >= INFINITE]:
        raise Unsupported(
            f"{', '.join(overflowing)} of the definition are not finite in this precision, so that no engine can be "
            "checked: scale the features or the edge weights down"
        )
    return Expected(tensors, deviations)


def spoil(*arrays: Any) -> None:
    """Overwrite what an engine has answered, as far as it lets, so that no later call can answer with it again."""
    for array in arrays:
        if isinstance(array, np.ndarray) and array.flags.writeable:
            array.fill(np.nan)


def error_of(tensor: Floats | None, exact: Floats) -> float:
    """Largest difference; ``INFINITE`` for an absent tensor, another shape, or a number that is not finite."""
    if tensor is None or np.shape(tensor) != np.shape(exact):
        return INFINITE
    difference = float(np.abs(np.asarray(tensor, dtype=np.float64) - exact).max(initial=0.0))
    return difference if np.isfinite(difference) else INFINITE


def multiple_of(error: float, deviation: float) -> float:
    """An error over its deviation; a tensor that no rounding changes must be exact."""
    if error >= INFINITE:
        return INFINITE
    return error / deviation if deviation else (INFINITE if error else 0.0)
