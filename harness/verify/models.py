"""Parity gate of ``train`` and ``infer``: logits, loss and gradients against the float64 definition of the model."""

from dataclasses import replace
from typing import Any

import numpy as np

from backends.batches import BatchPlan
from backends.contract import Nodes
from backends.model import ModelSpec, State, initial_state
from backends.registry import load_object, runtime
from datasets.features import SparseFeatures, root_mean_square
from datasets.graph import Graph
from datasets.randomness import stream
from harness.measure.clock import Clock
from harness.planning.schema import RunConfig
from harness.scenario.setup import neighbourhood_spec_of, spec_of, training_of
from harness.verify.comparison import Answer, parts_of, spoil, verify_all
from harness.verify.draws import options_not_verified, verify_trained_draws

DEFINITION = "backends.reference.definition"
BATCHES = 3  # of inference at least, where an engine goes batch by batch


def verify_model(config: RunConfig, graph: Graph) -> dict[str, Any]:
    """Compare the engine of ``config`` on a small graph and on a slice of ``graph``; raises Incorrect.

    Returns what ``verify_all`` returns, and under ``not verified`` the options of drawing that were not looked at.
    """
    view = graph.training_view() if config.scenario.name == "train" else graph
    view = with_columns_read(view, spec_of(config, graph))
    parts = parts_of(config, view)
    parity = verify_all(config, {name: ModelSubject(config, part) for name, part in parts.items()})
    if config.scenario.name == "train":
        # Loaded here: they compare models, as this module does.
        for verify in ("steps:verify_steps", "epochs:verify_epochs"):
            parity |= load_object(f"harness.verify.{verify}")(config, parts["small graph"])
        parity |= load_object("harness.verify.dropout:verify_dropout")(
            config, isinstance(graph.features, SparseFeatures)
        )
        parity |= verify_trained_draws(config, neighbourhood_spec_of(config, graph))
        parity |= load_object("harness.verify.any_draw:verify_any_draw")(config, parts["small graph"])
    return parity | options_not_verified(config.backend)


def with_columns_read(graph: Graph, spec: ModelSpec) -> Graph:
    """The graph with the columns of the edges that the layers read: sampling, which reads others, is uniform here.

    An engine refuses columns that its own configuration does not read when it prepares the whole graph.
    """
    return replace(
        graph,
        edge_weights=graph.edge_weights if "weight" in spec.edge_columns else None,
        edge_features=graph.edge_features if "features" in spec.edge_columns else None,
    )


def with_all_edges(spec: ModelSpec, graph: Graph) -> ModelSpec:
    """The model with fanouts that leave out no edge, where it has fanouts."""
    return replace(spec, fanouts=(max(1, int(graph.csr.in_degrees.max(initial=0))),) * len(spec.fanouts))


def state_of(spec: ModelSpec, seed: int, graph: Graph) -> State:
    """The canonical state of a seed, with random biases: zeros would hide that an engine adds none.

    They are of the size of the features, so that neither hides the other.
    """
    assert graph.features is not None
    size = root_mean_square(graph.features)
    state = initial_state(spec, seed)
    for name, value in state.items():
        if name.endswith("bias"):
            generator = np.random.Generator(np.random.Philox(key=stream(seed, name)))
            state[name] = generator.uniform(-0.5 * size, 0.5 * size, value.shape).astype(np.float32)
    return state


Plan = tuple[int | None, Nodes]  # size of a batch, and all targets


def _one_batch(config: RunConfig, graph: Graph) -> Plan:
    """The first batch of training nodes: training compares one."""
    size = config.training.batch_size
    return size, graph.nodes_of("train")[:size]


def _all_nodes(config: RunConfig, graph: Graph) -> Plan:
    """All nodes, as in the timed call, in several batches where there are batches, the last one smaller."""
    size = config.training.batch_size
    return None if size is None else min(size, graph.nodes // BATCHES + 1), np.arange(graph.nodes)


class ModelSubject:
    """Fresh runtime objects of one backend on one graph; training without dropout, which has a gate of its own.

    Fanouts are sampled alike by engine and definition where the engine can be given the definition's draws. Elsewhere
    both use all neighbours, an engine that trains with fanouts as large as the in-degrees: by the path that is timed.
    """

    def __init__(self, config: RunConfig, graph: Graph) -> None:
        self.config, self.graph, self.scenario = config, graph, config.scenario.name
        self.backend = config.backend.for_parity_gate()
        spec = spec_of(config, graph)
        self.spec: ModelSpec = spec if self.scenario in self.backend.draws else replace(spec, fanouts=())
        self.engine_spec = self.spec if self.spec.fanouts or self.scenario != "train" else with_all_edges(spec, graph)
        self.size, self.targets = _one_batch(config, graph) if self.scenario == "train" else _all_nodes(config, graph)

    def answer(self, seed: int) -> Answer:
        """Let a new runtime object compute from the state of ``seed``."""
        state = state_of(self.spec, seed, self.graph)
        engine = runtime(self.backend, self.scenario)
        plan = BatchPlan(self.targets, self.size, None, self.config.seed)
        training = training_of(self.config)
        if self.scenario == "train":
            training = training.without_dropout()  # it has a gate of its own; inference must not drop anything
        engine.prepare(self.graph, self.engine_spec, training, state, plan, Clock())
        try:
            if self.scenario == "infer":
                # the calls that are timed follow another one, whose answer must not be theirs
                spoil(engine.infer(Clock()))
                return engine.infer(Clock()), None, {}
            logits, loss, gradients = engine.loss_and_gradients(self.targets)
            return logits, float(loss), gradients
        finally:
            engine.close()

    def definition(self, seed: int, arithmetic: Any) -> Answer:
        """Compute the same from the definition."""
        state, function = (
            state_of(self.spec, seed, self.graph),
            "loss_and_gradients" if self.scenario == "train" else "scores",
        )
        defined = load_object(f"{DEFINITION}:{function}")
        result = defined(self.graph, self.spec, state, self.targets, self.config.seed, arithmetic)
        return result if self.scenario == "train" else (result, None, {})
