"""The parity gate: before a cell is timed, its engine's numbers are compared with the float64 definition.

The error of a tensor is ``max|a - r| / max(max|r|, 1e-3 * largest gradient of its layer)``. A forward error above its
bound is wrong at once. A gradient above it is tried from two more states and wrong only if it exceeds in all three:
a ReLU whose sign flips between float32 and float64 fails by chance, a wrong gradient always.
"""

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from backends.batches import BatchPlan
from backends.contract import Floats, Nodes
from backends.model import ModelSpec, initial_state
from backends.registry import load_object, runtime
from datasets.csr import csr_from_edges
from datasets.graph import Graph
from harness.measure.clock import Clock
from harness.planning.schema import RunConfig
from harness.scenario.setup import product_spec_of, spec_of, training_of

DEFINITION = "backends.reference.definition"
FORWARD = {"float32": 1e-5, "tf32": 5e-3, "bf16": 2e-2}
GRADIENT = {"float32": 2e-5, "tf32": 5e-3, "bf16": 2e-2}
TRIES = 3
BLOCK = 1024
SLICE_NODES = 4096
SLICE_EDGES = 40_000
Answer = tuple[Floats, float | None, dict[str, Floats]]


class Incorrect(Exception):
    """An engine's numbers are wrong; ``parity`` is what the record says of them."""

    def __init__(self, message: str, parity: dict[str, Any]) -> None:
        super().__init__(message)
        self.parity = parity


def verify(config: RunConfig, graph: Graph) -> dict[str, Any]:
    """Compare the engine of ``config`` on a small graph and on a slice of ``graph``; raises Incorrect.

    Returns per graph: nodes, edges, the worst forward and gradient error, the worst tensor, the states tried.
    """
    kind = config.scenario.name
    view = graph.training_view() if kind == "train" else graph
    small = small_graph(graph.task, graph.classes, weighted=config.model.name == "gcn")
    parity: dict[str, Any] = {}
    for name, part in {"small graph": small, **slice_of(view, config)}.items():
        engine = (_Product if kind == "spmm" else _Engine)(config, part, kind)
        parity[name] = _compare(engine)
        if parity[name].pop("wrong"):
            worst = parity[name]
            raise Incorrect(
                f"backend {config.backend.name} disagrees with the definition on {name}: {worst['tensor']} is off by "
                f"{max(worst['forward'], worst['gradient']):.1e}, allowed are {engine.forward_bound:g} forward and "
                f"{engine.gradient_bound:g} for gradients",
                parity,
            )
    return parity


class _Engine:
    """Fresh runtime objects of one backend on one graph, without dropout.

    Fanouts are sampled alike by engine and definition, where the engine can be told to; elsewhere left out.
    """

    def __init__(self, config: RunConfig, graph: Graph, scenario: str) -> None:
        self.config, self.graph, self.scenario = config, graph, scenario
        self.backend = config.backend.checked()
        spec = spec_of(config, graph)
        self.spec: ModelSpec = spec if scenario in self.backend.draws else replace(spec, fanouts=())
        self.size = config.training.batch_size
        nodes = graph.nodes_of("train") if scenario == "train" else np.arange(graph.nodes)
        self.targets: Nodes = nodes if self.size is None else nodes[: self.size]
        self.forward_bound = FORWARD[config.training.dtype]
        self.gradient_bound = GRADIENT[config.training.dtype]

    def answer(self, seed: int) -> Answer:
        """Let a new runtime object compute from the state of ``seed``."""
        state = initial_state(self.spec, seed)
        engine = runtime(self.backend, self.scenario)
        plan = BatchPlan(self.targets, self.size, None, self.config.seed)
        training = training_of(self.config).without_dropout()
        engine.prepare(self.graph, self.spec, training, state, plan, Clock())
        try:
            if self.scenario == "infer":
                return engine.infer(Clock()), None, {}
            logits, loss, gradients = engine.loss_and_gradients(self.targets)
            return logits, float(loss), gradients
        finally:
            engine.close()

    def definition(self, seed: int) -> Answer:
        """What the answer should be, float64."""
        state = initial_state(self.spec, seed)
        # torch is loaded for the comparison only, so that cells without a gate can do without.
        import torch

        if self.scenario == "train":
            made = load_object(f"{DEFINITION}:loss_and_gradients")
            answer: Answer = made(self.graph, self.spec, state, self.targets, self.config.seed)
            return answer
        parameters = {name: torch.from_numpy(value.astype(np.float64)) for name, value in state.items()}
        forward = load_object(f"{DEFINITION}:forward")
        return forward(self.graph, self.spec, parameters, self.config.seed).numpy()[self.targets], None, {}


class _Product(_Engine):
    """The multiplier of one backend on one graph; the state's seed draws its operands."""

    def __init__(self, config: RunConfig, graph: Graph, scenario: str) -> None:
        self.config, self.graph, self.scenario = config, graph, scenario
        self.spec = product_spec_of(config)
        self.forward_bound = FORWARD[config.training.dtype]
        self.gradient_bound = GRADIENT[config.training.dtype]

    def answer(self, seed: int) -> Answer:
        """See ``_Engine``."""
        engine = runtime(self.config.backend, self.scenario)
        engine.prepare(self.graph, self.spec, replace(training_of(self.config), seed=seed), Clock())
        try:
            engine.multiply(Clock())
            out, gradients = engine.products()
            return out, None, gradients
        finally:
            engine.close()

    def definition(self, seed: int) -> Answer:
        """See ``_Engine``."""
        out, gradients = load_object(f"{DEFINITION}:products")(self.graph, self.spec, seed)
        return out, None, gradients


@dataclass
class _Findings:
    """Least error of each tensor over the states tried."""

    errors: dict[str, float] = field(default_factory=dict)

    def add(self, errors: dict[str, float]) -> None:
        self.errors = {name: min(error, self.errors.get(name, error)) for name, error in errors.items()}


def _compare(engine: _Engine) -> dict[str, Any]:
    forward: dict[str, float] = {}
    gradients = _Findings()
    for attempt in range(TRIES):
        seed = engine.config.seed + 1000 * attempt
        found, wanted = engine.answer(seed), engine.definition(seed)
        forward = {name: max(error, forward.get(name, 0.0)) for name, error in forward_errors(found, wanted).items()}
        gradients.add(gradient_errors(found[2], wanted[2]))
        wrong_forward = max(forward.values()) > engine.forward_bound
        wrong_gradient = max(gradients.errors.values(), default=0.0) > engine.gradient_bound
        if wrong_forward or not wrong_gradient:
            break
    both = {name: error / engine.forward_bound for name, error in forward.items()}
    both |= {name: error / engine.gradient_bound for name, error in gradients.errors.items()}
    return {
        "nodes": engine.graph.nodes,
        "edges": engine.graph.csr.nnz,
        "forward": max(forward.values()),
        "gradient": max(gradients.errors.values(), default=0.0),
        "tensor": max(both, key=lambda name: both[name]),
        "tries": attempt + 1,
        "wrong": wrong_forward or wrong_gradient,
    }


def error_of(found: Floats, wanted: Floats, least: float = 0.0) -> float:
    """Largest difference over the larger of ``max|wanted|`` and ``least``; infinite for another shape or NaN."""
    if np.shape(found) != np.shape(wanted):
        return 1e30
    difference = np.abs(np.asarray(found, dtype=np.float64) - wanted).max(initial=0.0)
    scale = max(float(np.abs(wanted).max(initial=0.0)), least, 1e-30)
    return float(difference / scale) if np.isfinite(difference) else 1e30


def forward_errors(found: Answer, wanted: Answer) -> dict[str, float]:
    """Errors of logits and loss."""
    errors = {"logits": error_of(found[0], wanted[0])}
    if found[1] is not None and wanted[1] is not None:
        errors["loss"] = error_of(np.array(found[1]), np.array(wanted[1]))
    return errors


def gradient_errors(found: dict[str, Floats], wanted: dict[str, Floats]) -> dict[str, float]:
    """Error of every gradient that the definition has; one that is missing is infinitely wrong."""
    largest: dict[str, float] = {}
    for name, value in wanted.items():
        layer = name.rpartition(".")[0]
        largest[layer] = max(largest.get(layer, 0.0), float(np.abs(value).max(initial=0.0)))
    return {
        name: error_of(found[name], value, 1e-3 * largest[name.rpartition(".")[0]]) if name in found else 1e30
        for name, value in wanted.items()
    }


def small_graph(task: str, classes: int, *, weighted: bool, nodes: int = 60, width: int = 12) -> Graph:
    """A fixed asymmetric graph with a hub (node 0), an isolated node (the last) and parallel edges."""
    random = np.random.Generator(np.random.Philox(key=17))
    inner = nodes - 1
    source, destination = random.integers(0, inner, 4 * nodes), random.integers(0, inner, 4 * nodes)
    hub = np.arange(1, inner)
    source = np.concatenate((source, hub, source[:10]))
    destination = np.concatenate((destination, np.zeros(len(hub), dtype=np.int64), destination[:10]))
    kept = source != destination
    csr = csr_from_edges(source[kept], destination[kept], (nodes, nodes))
    classes = min(max(classes, 2), 8)
    many = (random.random((nodes, classes)) < 0.4).astype(np.int8)
    return Graph(
        "small graph",
        csr,
        features=random.standard_normal((nodes, width)).astype(np.float32),
        labels=many if task == "multilabel" else random.integers(0, classes, nodes),
        split=(np.arange(nodes) % 3).astype(np.int8),
        classes=classes,
        task="multilabel" if task == "multilabel" else "multiclass",
        edge_weights=random.uniform(0.5, 2.0, csr.nnz).astype(np.float32) if weighted else None,
    )


def slice_of(graph: Graph, config: RunConfig) -> dict[str, Graph]:
    """Name and cut a part of a data set: its first graph, or one block of targets with what they aggregate."""
    if graph.labels is None and config.scenario.name != "spmm":
        return {}
    if graph.graph_ids is not None and graph.inductive:
        first = np.flatnonzero(graph.graph_ids == graph.graph_ids[0])
        if int(graph.csr.in_degrees[first].sum()) <= SLICE_EDGES:
            return {"first graph": graph.subgraph(first)}
    labelled = graph.nodes_of("train") if graph.labels is not None else np.arange(graph.nodes)
    targets = labelled[: min(BLOCK, config.training.batch_size or BLOCK)]
    nodes = neighbourhood(graph, targets, config.model.layers)
    return {f"neighbourhood of {len(targets)} targets": graph.subgraph(nodes)} if len(targets) else {}


def neighbourhood(graph: Graph, targets: Nodes, hops: int) -> NDArray[np.int64]:
    """Return ``targets`` and what they aggregate over some hops, cut where the slice would grow beyond its bounds."""
    nodes = targets[: _affordable(graph, targets, 0)]
    frontier = nodes
    for _ in range(hops):
        reached = np.setdiff1d(graph.csr.rows(frontier)[0].indices, nodes)
        frontier = reached[: _affordable(graph, reached, len(nodes))].astype(np.int64)
        nodes = np.concatenate((nodes, frontier))
    return nodes


def _affordable(graph: Graph, nodes: Nodes, held: int) -> int:
    """How many of ``nodes`` fit: the in-edges of each count, whether or not their sources are in the slice."""
    edges = np.cumsum(graph.csr.in_degrees[nodes])
    by_edges = int(np.searchsorted(edges, SLICE_EDGES * (SLICE_NODES - held) // SLICE_NODES, side="right"))
    return max(1 if held == 0 else 0, min(by_edges, SLICE_NODES - held))
