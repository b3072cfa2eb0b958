"""Native engines over sparse features: the answers of the definition, and of the dense features under equal masks."""

from dataclasses import replace

import numpy as np
import pytest

from backends.ablation import resolve
from backends.batches import BatchPlan
from backends.contract import Unsupported
from backends.kernels import operand
from backends.model import ModelSpec, TrainingSpec, initial_state
from backends.reference.definition import loss_and_gradients
from backends.registry import config_class, runtime
from datasets.features import SparseFeatures, in_layout
from datasets.order import apply_order
from tests.contract.test_parity import PlainClock
from tests.graphs import awkward_graph

ENGINES = [
    ("blocksparse", {}, (None,)),
    ("agl", {}, (None, 9)),
    ("agl", {"form": "paper"}, (None, 9)),
    ("agl", {"pruning": "false", "partition": "false"}, (9,)),
    ("agl", {"pipeline": "true", "pipeline_from": 1}, (9,)),
    ("agl", {"strategy": "sync", "workers": 2, "servers": 0}, (9,)),
    ("agl", {"source": "graphfeature"}, (None, 9)),
    ("agl", {"source": "graphfeature", "features": "shared"}, (9,)),
]
CASES = [
    (name, options, size, model, heads)
    for name, options, sizes in ENGINES
    for size in sizes
    for model, heads in (("gcn", 1), ("sage", 1), ("gat", 1), ("gat", 2))
]
DROPOUT = TrainingSpec(threads=1, dropout=0.4, seed=5)


def sparse_graph(seed=0, nodes=300, edges=900, width=80):
    """A graph of few features and its twin of dense ones."""
    graph = awkward_graph(seed, nodes, edges)
    draw = np.random.default_rng(seed)
    dense = np.where(draw.random((nodes, width)) < 0.05, draw.normal(size=(nodes, width)), 0).astype(np.float32)
    dense[:7] = 0  # rows without a value
    return tuple(replace(graph, features=in_layout(dense, layout)) for layout in ("sparse", "dense"))


def trainer(graph, name, options, size, model, heads=1, training=None, layers=2):
    spec = ModelSpec(model, layers, graph.width, 16, graph.classes, heads=heads)
    engine = runtime(resolve(config_class(name)(**options), []), "train")
    plan = BatchPlan(graph.nodes_of("train"), size, None, 1)
    engine.prepare(graph, spec, training or TrainingSpec(threads=1), initial_state(spec, 0), plan, PlainClock())
    return engine


def answers(engine, targets):
    try:
        engine.load(initial_state(engine.spec, 0))
        return engine.loss_and_gradients(targets)
    finally:
        engine.close()


def assert_near(first, second, rtol=3e-5):
    np.testing.assert_allclose(first[0], second[0], rtol=rtol, atol=rtol * np.abs(second[0]).max())
    assert first[1] == pytest.approx(second[1], rel=rtol)
    largest = max(np.abs(gradient).max() for gradient in second[2].values())
    for name, gradient in second[2].items():
        np.testing.assert_allclose(first[2][name], gradient, rtol=rtol, atol=rtol * largest, err_msg=name)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_without_dropout_engines_equal_the_definition(case):
    sparse, dense = sparse_graph()
    targets = sparse.nodes_of("train")[:9]
    engine = trainer(sparse, *case)
    expected = loss_and_gradients(dense, engine.spec, initial_state(engine.spec, 0), targets)
    assert_near(answers(engine, targets), expected)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_with_dropout_sparse_and_dense_features_give_the_same_loss(case):
    sparse, dense = sparse_graph()
    targets = sparse.nodes_of("train")[:9]
    first, second = (answers(trainer(graph, *case, DROPOUT), targets) for graph in (sparse, dense))
    assert_near(first, second)
    without = answers(trainer(dense, *case), targets)
    assert first[1] != pytest.approx(without[1], rel=1e-5)


@pytest.mark.parametrize("model", ["gcn", "sage", "gat"])
@pytest.mark.parametrize("layout", [0, 1])
def test_masks_do_not_depend_on_engine_batch_form_or_order(model, layout):
    graph = sparse_graph()[layout]
    graph = replace(graph, node_ids=np.arange(graph.nodes)[::-1] * 1000003)
    targets = graph.nodes_of("train")[:9]
    expected = answers(trainer(graph, "blocksparse", {}, None, model, 2, DROPOUT), targets)
    for name, options, size in (
        ("agl", {}, None),
        ("agl", {}, 9),
        ("agl", {"form": "paper"}, 9),
        ("agl", {"source": "graphfeature"}, 9),
    ):
        assert_near(answers(trainer(graph, name, options, size, model, 2, DROPOUT), targets), expected)
    order = np.random.default_rng(3).permutation(graph.nodes)
    ordered, places = apply_order(graph, order), np.argsort(order)
    moved = answers(trainer(ordered, "blocksparse", {}, None, model, 2, DROPOUT), places[targets])
    assert_near(moved, expected)


def test_masks_change_with_the_epoch_and_repeat_after_load():
    graph = sparse_graph()[0]
    engine = trainer(graph, "blocksparse", {}, None, "gcn", 1, replace(DROPOUT, rate=1e-30))
    losses = [engine.epoch(index, PlainClock()) for index in (0, 1, 0)]
    assert losses[0] == losses[2] != losses[1]


INPUTS = [("reference", {"input": "sparse"}), ("reference", {"input": "cached"})] + [
    pytest.param("pyg", {"input": "sparse", "variant": variant}, marks=pytest.mark.needs_pyg)
    for variant in ("edge_index", "csr", "scatter")
]
INPUTS += [pytest.param("dgl", {"input": "sparse"}, marks=pytest.mark.needs_dgl)]


@pytest.mark.parametrize("model", ["gcn", "sage", "gat"])
@pytest.mark.parametrize(("name", "options"), INPUTS)
def test_peers_take_sparse_tensors(name, options, model):
    config, graph = config_class(name)(**options), sparse_graph()[0]
    if config.unsupported("train", model, "cpu", True) is not None:
        assert (name, model) == ("pyg", "sage") or (name, model, options["variant"]) == ("pyg", "gat", "csr")
        return
    targets = graph.nodes_of("train")[:9]
    engine = trainer(graph, name, options, None, model)
    expected = loss_and_gradients(graph, engine.spec, initial_state(engine.spec, 0), targets)
    assert_near(answers(engine, targets), expected)
    dropping = trainer(graph, name, options, None, model, training=DROPOUT)
    first, second = answers(dropping, targets), answers(dropping, targets)
    assert first[1] == second[1] != pytest.approx(expected[1], rel=1e-5)


@pytest.mark.parametrize(("name", "options"), INPUTS)
def test_peers_refuse_dense_features_as_sparse_ones(name, options):
    with pytest.raises(Unsupported, match=r"set backend\.input=dense"):
        trainer(sparse_graph()[1], name, options, None, "gcn")


@pytest.mark.parametrize("model", ["gcn", "sage", "gat"])
@pytest.mark.parametrize(("name", "size"), [("agl", None), ("blocksparse", None)])
def test_the_transpose_of_a_full_batchs_input_is_built_in_preparation(name, size, model, monkeypatch):
    engine = trainer(sparse_graph()[0], name, {}, size, model)
    monkeypatch.setattr(operand, "transposed", None)
    assert np.isfinite(engine.epoch(0, PlainClock()))


@pytest.mark.parametrize(("value", "layout"), [("true", SparseFeatures), ("false", np.ndarray)])
@pytest.mark.parametrize("sink", ["disk", "none"])
def test_graphflat_stores_features_as_the_switch_says(value, layout, sink):
    graph = sparse_graph()[0]
    engine = runtime(resolve(config_class("agl")(sparse=value, sink=sink), []), "flatten")
    spec = ModelSpec("gcn", 2, graph.width, 16, graph.classes)
    engine.prepare(graph, spec, TrainingSpec(threads=1), BatchPlan(np.arange(7)), PlainClock())
    engine.flatten(PlainClock())
    assert {type(record.features) for record in engine.stored()} == {layout}
    engine.close()


@pytest.mark.parametrize("name", ["agl", "blocksparse"])
def test_the_switch_turns_features_dense(name):
    graph, targets = sparse_graph()[0], np.arange(5)
    on, off = (trainer(graph, name, {"sparse": value}, None, "sage") for value in ("true", "false"))
    assert on.sparse_input and not off.sparse_input
    assert on.facts()["spmm"][0]["width"] == 16, "a sparse input is transformed before it is aggregated"
    assert_near(answers(on, targets), answers(off, targets))


INFERRERS = [("agl", {"infer": infer}) for infer in ("graphinfer", "neighbourhood", "fullgraph")]
INFERRERS += [("agl", {"infer": "graphinfer", "sparse": "false"}), ("blocksparse", {})]


@pytest.mark.parametrize("model", ["gcn", "sage", "gat"])
@pytest.mark.parametrize(("name", "options"), INFERRERS)
def test_inference_over_sparse_features(name, options, model):
    scores = []
    for graph in sparse_graph():
        spec = ModelSpec(model, 2, graph.width, 16, graph.classes, heads=2)
        engine = runtime(resolve(config_class(name)(**options), []), "infer")
        plan = BatchPlan(np.arange(graph.nodes), 50)
        engine.prepare(graph, spec, TrainingSpec(threads=1), initial_state(spec, 0), plan, PlainClock())
        scores.append(engine.infer(PlainClock()))
        engine.close()
    np.testing.assert_allclose(scores[0], scores[1], rtol=1e-4, atol=1e-5 * np.abs(scores[1]).max())
