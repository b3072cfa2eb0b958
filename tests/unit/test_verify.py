"""The gate lets right engines through, catches each wrong number, and forgives what only chance explains."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from backends.ablation import resolve
from backends.dummy.network import NumpyNetwork, loss_and_gradient
from backends.model import ModelSpec, initial_state
from backends.reference import definition
from backends.registry import config_class
from harness import verify as gate
from harness.planning.schema import DatasetConfig, ModelConfig, RunConfig, ScenarioConfig, TrainingConfig
from harness.verify.gradients import Incorrect, error_of, gradient_errors, neighbourhood, small_graph, verify

MODELS = ("gcn", "sage", "gat")


def config(model="gcn", scenario="train", batch_size=None, **backend):
    return RunConfig(
        dataset=DatasetConfig("tiny"),
        model=ModelConfig(model, hidden=8, heads=2),
        backend=config_class("dummy")(**backend),
        training=TrainingConfig(batch_size=batch_size, dropout=0.5),
        scenario=ScenarioConfig(scenario),
        threads=1,
    )


@pytest.mark.parametrize("task", ["multiclass", "multilabel"])
@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("batch_size", [None, 16])
def test_a_right_engine_passes(model, task, batch_size):
    graph = small_graph(task, 4, weighted=model == "gcn", nodes=150)
    parity = verify(config(model, batch_size=batch_size), graph)
    assert len(parity) == 2
    assert all(found["forward"] <= 1e-5 and found["gradient"] <= 2e-5 for found in parity.values())
    assert all(found["tries"] == 1 for found in parity.values())


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("scenario", ["train", "infer"])
def test_a_wrong_engine_is_caught(model, scenario):
    graph = small_graph("multiclass", 4, weighted=False, nodes=150)
    with pytest.raises(Incorrect, match="disagrees with the definition on small graph") as caught:
        verify(config(model, scenario, fail="wrong"), graph)
    found = caught.value.parity["small graph"]
    assert max(found["forward"], found["gradient"]) > 2e-5
    assert found["tries"] == (gate.TRIES if scenario == "train" else 1)


@pytest.mark.parametrize("model", MODELS)
def test_inference_is_compared_too(model):
    parity = verify(config(model, "infer"), small_graph("multiclass", 4, weighted=False, nodes=150))
    assert all(found["gradient"] == 0.0 and found["forward"] <= 1e-5 for found in parity.values())


class Flipping:
    """An engine that is the definition, but for one gradient in those tries that are named."""

    def __init__(self, wrong_in, forward_wrong_in=()):
        self.config, self.graph = config(), small_graph("multiclass", 4, weighted=False)
        self.spec = ModelSpec("gcn", 2, self.graph.width, 8, 4)
        self.targets = self.graph.nodes_of("train")
        self.forward_bound, self.gradient_bound = 1e-5, 2e-5
        self.tries, self.wrong_in, self.forward_wrong_in = -1, wrong_in, forward_wrong_in

    def definition(self, seed):
        return definition.loss_and_gradients(self.graph, self.spec, initial_state(self.spec, seed), self.targets)

    def answer(self, seed):
        self.tries += 1
        logits, loss, gradients = self.definition(seed)
        if self.tries in self.wrong_in:
            gradients["layers.0.bias"] = gradients["layers.0.bias"] + 1e-3
        return logits * (1.001 if self.tries in self.forward_wrong_in else 1.0), loss, gradients


@pytest.mark.parametrize(
    ("wrong_in", "tries", "wrong"),
    [((), 1, False), ((0,), 2, False), ((0, 1), 3, False), ((0, 1, 2), 3, True)],
)
def test_a_gradient_is_wrong_only_if_it_is_so_from_three_states(wrong_in, tries, wrong):
    found = gate._compare(Flipping(wrong_in))
    assert (found["tries"], found["wrong"]) == (tries, wrong)
    assert found["tensor"] == "layers.0.bias" or not wrong


def test_a_wrong_forward_pass_is_wrong_at_once():
    found = gate._compare(Flipping((), forward_wrong_in=(0,)))
    assert (found["tries"], found["wrong"], found["tensor"]) == (1, True, "logits")


@given(st.floats(1e-6, 1e6), st.integers(0, 100))
def test_errors_do_not_depend_on_scale(scale, seed):
    random = np.random.default_rng(seed)
    wanted = random.standard_normal((4, 3))
    found = wanted * (1 + 1e-4 * random.standard_normal((4, 3)))
    assert error_of(found * scale, wanted * scale) == pytest.approx(error_of(found, wanted), rel=1e-6)


def test_small_tensors_are_measured_against_their_layer():
    wanted = {"layers.0.weight": np.array([1.0]), "layers.0.bias": np.array([1e-9]), "layers.1.bias": np.array([1e-9])}
    found = {name: value + 1e-9 for name, value in wanted.items()}
    errors = gradient_errors(found, wanted)
    assert errors["layers.0.bias"] == pytest.approx(1e-6)
    assert errors["layers.1.bias"] == pytest.approx(1.0)


@pytest.mark.parametrize("found", [np.zeros((2, 3)), np.full((2, 2), np.nan), np.full((2, 2), np.inf)])
def test_other_shapes_and_numbers_that_are_none_are_wrong(found):
    assert error_of(found, np.ones((2, 2))) > 1.0


def test_a_missing_gradient_is_wrong():
    assert gradient_errors({}, {"layers.0.weight": np.ones(2)})["layers.0.weight"] > 1.0


@pytest.mark.parametrize("weighted", [False, True])
def test_the_small_graph_is_awkward(weighted):
    graph = small_graph("multiclass", 4, weighted=weighted)
    edges = set(zip(graph.csr.indices.tolist(), graph.csr.destinations.tolist(), strict=True))
    assert len(edges) < graph.csr.nnz, "parallel edges"
    assert any((b, a) not in edges for a, b in edges), "asymmetric"
    assert graph.csr.in_degrees[0] > 5 * np.median(graph.csr.in_degrees), "a hub"
    assert graph.csr.in_degrees[-1] == 0 and graph.nodes - 1 not in graph.csr.indices, "an isolated node"
    assert (graph.edge_weights is not None) == weighted


@given(st.integers(1, 3), st.integers(1, 60), st.integers(20, 4000))
def test_slices_hold_their_targets_and_stay_small(hops, count, edges):
    graph = small_graph("multiclass", 4, weighted=False, nodes=200)
    limits = SimpleNamespace(nodes=gate.SLICE_NODES, edges=gate.SLICE_EDGES)
    gate.SLICE_NODES, gate.SLICE_EDGES = 100, edges
    try:
        nodes = neighbourhood(graph, graph.nodes_of("train")[:count], hops)
    finally:
        gate.SLICE_NODES, gate.SLICE_EDGES = limits.nodes, limits.edges
    assert len(set(nodes.tolist())) == len(nodes) <= 100
    assert graph.subgraph(nodes).csr.nnz <= (hops + 1) * max(edges, int(graph.csr.in_degrees[nodes[0]]))


def test_a_whole_neighbourhood_gives_targets_the_logits_of_the_whole_graph():
    graph = small_graph("multiclass", 4, weighted=False, nodes=400)
    targets = graph.nodes_of("train")[:3]
    nodes = neighbourhood(graph, targets, 2)
    spec = ModelSpec("sage", 2, graph.width, 8, 4)
    state = initial_state(spec, 0)
    whole, _, _ = definition.loss_and_gradients(graph, spec, state, targets)
    part, _, _ = definition.loss_and_gradients(graph.subgraph(nodes), spec, state, np.arange(3))
    assert len(nodes) < graph.nodes
    np.testing.assert_allclose(part, whole, rtol=1e-12)


def test_inductive_sets_are_compared_on_their_first_graph():
    graph = small_graph("multilabel", 4, weighted=False, nodes=150)
    ids = (np.arange(150) >= 50).astype(np.int32)
    graph = replace(graph, inductive=True, graph_ids=ids, split=np.where(ids == 0, 0, 1).astype(np.int8))
    parity = verify(config(), graph)
    assert parity["first graph"]["nodes"] == 50


@pytest.mark.parametrize("head", ["none", "linear"])
@pytest.mark.parametrize("multilabel", [False, True])
@pytest.mark.parametrize("model", MODELS)
def test_the_dummy_engine_computes_the_definition(model, multilabel, head):
    graph = small_graph("multilabel" if multilabel else "multiclass", 4, weighted=model == "gcn")
    spec = ModelSpec(model, 3, graph.width, 8, 4, heads=3, output_heads=2, head=head)
    state, targets = initial_state(spec, 1), graph.nodes_of("train")
    logits, loss, gradients = definition.loss_and_gradients(graph, spec, state, targets)
    network = NumpyNetwork(graph, spec)
    found = network.forward(state)
    value, inner = loss_and_gradient(found[targets], graph.labels[targets])
    above = np.zeros_like(found)
    above[targets] = inner
    np.testing.assert_allclose(found[targets], logits, rtol=1e-5, atol=1e-7)
    assert value == pytest.approx(loss, rel=1e-5)
    errors = gradient_errors(network.backward(above), gradients)
    assert max(errors.values()) < 2e-5


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("scenario", ["train", "infer"])
def test_engines_that_draw_the_definitions_samples_are_checked_on_them(model, scenario):
    graph = small_graph("multiclass", 4, weighted=model == "gcn", nodes=150)
    sampled = replace(config(model, scenario, batch_size=16), backend=resolve(config_class("agl")(scope="target"), []))
    sampled.model.fanouts = [2, 3]
    parity = verify(sampled, graph)
    assert all(found["forward"] <= 1e-5 and found["gradient"] <= 2e-5 for found in parity.values())
    engine = gate._Engine(sampled, graph, scenario)
    other = gate._Engine(replace(sampled, seed=1), graph, scenario)
    assert engine.spec.fanouts == (2, 3) and not np.allclose(engine.definition(0)[0], other.definition(0)[0], rtol=1e-3)


def test_engines_that_cannot_are_checked_on_all_neighbours():
    sampled = config("sage", batch_size=16)
    sampled.model.fanouts = [2, 3]
    graph = small_graph("multiclass", 4, weighted=False, nodes=150)
    assert gate._Engine(sampled, graph, "train").spec.fanouts == ()
    assert verify(sampled, graph)["small graph"]["tries"] == 1
