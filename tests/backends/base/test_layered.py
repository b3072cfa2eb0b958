"""Attention over a layer's input instead of its output, where that is cheaper; the masks of its dropout."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from backends.ablation import resolve
from backends.base import layered
from backends.base.layered import LayeredNetwork, LayerMatrix, attends_first
from backends.batches import BatchPlan
from backends.kernels.operand import operand
from backends.model import ModelSpec, TrainingSpec, initial_state
from backends.reference.definition import loss_and_gradients
from backends.registry import config_class, runtime
from datasets.adjacency import adjacency_of
from datasets.csr import Csr, csr_from_edges
from tests.backends.agl.test_backend import assert_close, few_of
from tests.contract.test_parity import PlainClock
from tests.graphs import awkward_graph


def trainer_of(graph, layers, heads=1):
    spec = ModelSpec("gat", layers, graph.width, 32, graph.classes, heads=heads, output_heads=heads)
    engine = runtime(resolve(config_class("agl")(), []), "train")
    plan = BatchPlan(graph.nodes_of("train"), 5)
    engine.prepare(graph, spec, TrainingSpec(threads=1), initial_state(spec, 0), plan, PlainClock())
    return engine


def gathers_input(engine, targets):
    """Return for each layer of a batch whether attention gathers the layer's input."""
    return [
        engine.gathers_input(layer, matrix.csr) for layer, matrix in enumerate(engine.mini_batch(targets).structure)
    ]


@settings(deadline=None, max_examples=30)
@given(layers=st.integers(1, 3), seed=st.integers(0, 99), shape=st.sampled_from([(40, 160), (300, 900)]),
       heads=st.sampled_from([1, 2, 4]))  # fmt: skip
def test_a_batch_equals_the_definition(layers, seed, shape, heads):
    graph = awkward_graph(seed, *shape, multilabel=seed % 2 == 1, classes=40)
    engine, targets = trainer_of(graph, layers, heads), few_of(graph, seed, 3)
    if (graph.labels[targets] < 0).all():
        return
    assert heads > 1 or gathers_input(engine, targets)[-1], "fewer rows than columns, and wider than its input"
    expected = loss_and_gradients(graph, engine.spec, initial_state(engine.spec, 0), targets)
    assert_close(engine.loss_and_gradients(targets), expected)


@pytest.mark.parametrize(("degree", "in_width", "hidden", "heads", "attends"), [
    (40, 16, 64, 8, True), (40, 50, 256, 4, True), (40, 1, 64, 1, True), (40, 64, 64, 8, False), (40, 1, 8, 8, False),
    (40, 8, 16, 1, False), (10, 16, 64, 8, False), (10, 50, 256, 4, False),
])  # fmt: skip
def test_a_narrow_input_of_a_whole_graph_is_attended_over(degree, in_width, hidden, heads, attends):
    edges = np.arange(300 * degree)
    csr = csr_from_edges(edges % 300, edges % 299, (300, 300))
    assert attends_first(ModelSpec("gat", 2, in_width, hidden, 5, heads=heads), 0, csr) == attends


@pytest.mark.parametrize("heads", [1, 4])
def test_few_rows_are_transformed_after_attention(heads):
    spec = ModelSpec("gat", 2, 64, 64, 5, heads=heads)
    edges = np.arange(20_000)
    for rows, attends in ((2_000, True), (10_000, False)):
        csr = csr_from_edges(edges % 10_000, edges % rows, (rows, 10_000))
        assert attends_first(spec, 0, csr) == attends


@pytest.mark.parametrize("heads", [1, 2, 8])
@pytest.mark.parametrize(("edge_width", "rate"), [(0, 0.0), (0, 0.4), (3, 0.4)])
def test_both_ways_give_one_network_with_the_same_masks(heads, edge_width, rate, monkeypatch):
    csr = adjacency_of(awkward_graph(3), "gat").csr
    spec = ModelSpec("gat", 3, 7, 5, 4, heads=heads, output_heads=heads, edge_width=edge_width)
    network = LayeredNetwork(spec, TrainingSpec(dropout=rate, attention_dropout=rate, dtype="float64")).double()
    network.load(initial_state(spec, 0))
    draw = torch.Generator().manual_seed(1)
    features = torch.randn(csr.shape[1], 7, generator=draw, dtype=torch.float64)
    of_edges = torch.randn(csr.nnz, edge_width, generator=draw, dtype=torch.float64) if edge_width else None
    results = []
    for attends in (False, True):
        monkeypatch.setattr(layered, "attends_first", lambda *_, attends=attends: attends)
        out = network(features, [LayerMatrix(csr, features=of_edges)] * 3)
        results.append([out, *torch.autograd.grad(out.sin().sum(), list(network.parameters()))])
    for one, other in zip(*results, strict=True):
        torch.testing.assert_close(one, other)


def test_a_recorded_step_attends_over_its_input():
    graph = awkward_graph(5, nodes=60, edges=4000)
    spec = ModelSpec("gat", 2, graph.width, 64, graph.classes, heads=8)
    engine = runtime(resolve(config_class("blocksparse")(), []), "train")
    plan = BatchPlan(graph.nodes_of("train"))
    engine.prepare(graph, spec, TrainingSpec(threads=1), initial_state(spec, 0), plan, PlainClock())
    assert engine.gathers_input(0, engine.full.structure[0].csr)
    engine.epoch(0, PlainClock())
    assert engine.facts()["captured"]


def test_facts_list_the_width_of_attention_over_the_input():
    graph = awkward_graph(1, 300, 900, classes=40)
    engine = trainer_of(graph, 1)
    products = engine.facts()["spmm"]
    assert [(spmm["name"], spmm["width"]) for spmm in products] == [("layers.0 forward", graph.width)]


def test_attention_over_the_features_of_a_whole_graph_builds_no_transpose():
    graph = awkward_graph(1, 300, 900, classes=40)
    spec = ModelSpec("gat", 1, graph.width, 64, graph.classes)
    engine = runtime(resolve(config_class("agl")(capture=False), []), "train")
    plan = BatchPlan(graph.nodes_of("train"))
    engine.prepare(graph, spec, TrainingSpec(threads=1), initial_state(spec, 0), plan, PlainClock())
    engine.epoch(0, PlainClock())
    csr = engine.model.in_form(engine.full.structure[0]).csr
    assert engine.gathers_input(0, csr)
    assert "transpose" not in vars(operand(csr))


def test_attention_without_edge_ids_draws_anew_and_with_them_repeats():
    graph = awkward_graph(1)
    csr = adjacency_of(graph, "gat").csr
    spec = ModelSpec("gat", 1, graph.width, 5, graph.classes)
    network = LayeredNetwork(spec, TrainingSpec(attention_dropout=0.5))
    network.load(initial_state(spec, 0))
    features = torch.from_numpy(graph.features)
    for matrix, repeats in ((csr, True), (Csr(csr.indptr, csr.indices, csr.shape), False)):
        one, other = (network(features, [LayerMatrix(matrix)]) for _ in range(2))
        assert torch.equal(one, other) == repeats
