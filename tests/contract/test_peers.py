"""The peers against the float64 definition: logits, loss and every gradient, full batch and mini batch."""

import multiprocessing
from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from backends.base.loss import loss_of
from backends.batches import BatchPlan
from backends.contract import Unsupported
from backends.kernels import khop
from backends.model import ModelSpec, TrainingSpec, initial_state
from backends.reference.definition import loss_and_gradients
from backends.registry import config_class, runtime
from datasets.adjacency import adjacency_of
from datasets.csr import csr_from_edges
from datasets.graph import Graph
from tests.contract.test_parity import PlainClock, assert_equals_definition, errors, trainer_of
from tests.graphs import awkward_graph

PYG = [
    pytest.param("pyg", {"variant": variant}, None, marks=pytest.mark.needs_pyg, id=f"pyg-{variant}-full")
    for variant in ("edge_index", "csr", "scatter")
] + [
    pytest.param("pyg", {"loader": "khop"} | options, 7, marks=pytest.mark.needs_pyg, id=f"pyg-mini-{name}")
    for name, options in {
        "trim": {},
        "whole": {"trim": False},
        "csr": {"variant": "csr"},
        "edges": {"variant": "edge_index"},
    }.items()
]
DGL = [
    pytest.param("dgl", {}, size, marks=pytest.mark.needs_dgl, id=f"dgl-{'mini' if size else 'full'}")
    for size in (None, 7)
]


def graph_with(edges, nodes, seed):
    """A labelled graph of exactly these edges, self loops left out."""
    draw = np.random.default_rng(seed)
    ends = np.array([edge for edge in edges if edge[0] != edge[1]], dtype=np.int64).reshape(-1, 2)
    return Graph(
        "drawn",
        csr_from_edges(ends[:, 0], ends[:, 1], (nodes, nodes)),
        features=draw.normal(size=(nodes, 4)).astype(np.float32),
        labels=draw.integers(0, 3, nodes),
        split=np.zeros(nodes, dtype=np.int8),
        classes=3,
        task="multiclass",
    )


def check(backend, options, batch_size, graph, spec):
    """Both logits, loss and gradients within the gate's bounds, for targets out of order."""
    targets = graph.nodes_of("train")[::-1][:9]
    trainer = trainer_of(backend, options, graph, spec, batch_size)
    assert_equals_definition(trainer, graph, spec, targets)
    trainer.close()


@pytest.mark.parametrize("multilabel", [False, True], ids=["multiclass", "multilabel"])
@pytest.mark.parametrize("layers", [1, 2, 3])
@pytest.mark.parametrize(
    ("model", "heads", "weighted"),
    [("gcn", 1, False), ("gcn", 1, True), ("sage", 1, False), ("gat", 1, False), ("gat", 3, False)],
    ids=["gcn", "gcn-weighted", "sage", "gat-1", "gat-3"],
)
@pytest.mark.parametrize(("backend", "options", "batch_size"), [*PYG, *DGL])
def test_loss_and_gradients_equal_the_definition(
    backend, options, batch_size, model, heads, weighted, layers, multilabel
):
    graph = awkward_graph(layers, weighted=weighted, multilabel=multilabel)
    outputs = 2 if heads > 1 else 1
    spec = ModelSpec(model, layers, graph.width, 5, graph.classes, heads=heads, output_heads=outputs)
    check(backend, options, batch_size, graph, spec)


@pytest.mark.parametrize("model", ["gcn", "sage", "gat"])
@pytest.mark.parametrize(("backend", "options", "batch_size"), [*PYG, *DGL])
def test_a_linear_head_is_trained_too(backend, options, batch_size, model):
    graph = awkward_graph(5, weighted=model == "gcn")
    check(backend, options, batch_size, graph, ModelSpec(model, 2, graph.width, 5, graph.classes, head="linear"))


@pytest.mark.parametrize("model", ["gcn", "sage", "gat"])
@pytest.mark.parametrize(("backend", "options", "batch_size"), [*PYG, *DGL])
@settings(max_examples=10, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(edges=st.lists(st.tuples(st.integers(0, 6), st.integers(0, 6)), max_size=20), seed=st.integers(0, 100))
def test_any_small_graph_even_without_edges(backend, options, batch_size, model, edges, seed):
    graph = graph_with(edges, nodes=7, seed=seed)
    spec = ModelSpec(model, 2, graph.width, 3, graph.classes)
    trainer = trainer_of(backend, options, graph, spec, batch_size)
    targets = graph.nodes_of("train")
    logits, loss, _ = trainer.loss_and_gradients(targets)
    expected, expected_loss, _ = loss_and_gradients(graph, spec, initial_state(spec, 0), targets)
    assert np.abs(logits - expected).max() <= 1e-5 * np.abs(expected).max()
    assert abs(loss - expected_loss) <= 1e-5 * abs(expected_loss)


@pytest.mark.parametrize("model", ["gcn", "sage", "gat"])
@pytest.mark.parametrize(("backend", "options", "batch_size"), [*PYG, *DGL])
def test_inference_needs_no_labels_and_scores_the_requested_nodes(backend, options, batch_size, model):
    graph = awkward_graph(6, weighted=model == "gcn")
    spec, nodes = ModelSpec(model, 2, graph.width, 5, graph.classes), np.array([17, 3, graph.nodes - 1, 0])
    state = initial_state(spec, 1)
    inferrer = runtime(config_class(backend)(**options), "infer")
    unlabelled = replace(graph, labels=None, split=None)
    inferrer.prepare(unlabelled, spec, TrainingSpec(threads=1), state, BatchPlan(nodes, batch_size), PlainClock())
    clock = PlainClock()
    scores = inferrer.infer(clock)
    expected = loss_and_gradients(graph, spec, state, nodes)[0]
    assert np.abs(scores - expected).max() <= 1e-5 * np.abs(expected).max()
    assert list(clock.seconds) == ["forward"]
    assert [spmm["name"] for spmm in inferrer.facts()["spmm"]] == ["layers.0 forward", "layers.1 forward"]
    inferrer.close()


@pytest.mark.parametrize("model", ["gcn", "sage", "gat"])
@pytest.mark.parametrize(("backend", "options", "batch_size"), [*PYG, *DGL])
def test_predictions_on_a_graph_that_training_never_saw(backend, options, batch_size, model):
    seen, other = awkward_graph(7), awkward_graph(8, nodes=55)
    spec = ModelSpec(model, 2, seen.width, 5, seen.classes)
    trainer = trainer_of(backend, options, seen, spec, batch_size)
    nodes = np.arange(other.nodes)[::-3]
    expected = loss_and_gradients(other, spec, initial_state(spec, 0), nodes)[0]
    assert np.abs(trainer.predict(other, nodes) - expected).max() <= 1e-5 * np.abs(expected).max()


@pytest.mark.parametrize("model", ["gcn", "sage", "gat"])
@pytest.mark.parametrize(("backend", "options", "batch_size"), [*PYG, *DGL])
def test_training_with_dropout_lowers_the_loss_and_load_repeats_it(backend, options, batch_size, model):
    graph = awkward_graph(9)
    spec = ModelSpec(model, 2, graph.width, 8, graph.classes, heads=2)
    training = TrainingSpec(threads=1, rate=0.02, dropout=0.2, attention_dropout=0.2)
    trainer = runtime(config_class(backend)(**options), "train")
    plan = BatchPlan(graph.nodes_of("train"), batch_size)
    trainer.prepare(graph, spec, training, initial_state(spec, 0), plan, PlainClock())
    first = [trainer.epoch(index, PlainClock()) for index in range(30)]
    assert np.mean(first[-5:]) < np.mean(first[:5])
    trainer.load(initial_state(spec, 0))
    assert [trainer.epoch(index, PlainClock()) for index in range(30)] == pytest.approx(first, rel=1e-4)
    dry = trainer_of(backend, options, graph, spec, batch_size)
    assert dry.epoch(0, PlainClock()) != pytest.approx(first[0], rel=1e-6)
    trainer.close()


def sampled(csr, features, weights, targets, layers):
    """All neighbours of the targets, laid out as PyG documents NeighborLoader's batches: hop by hop, targets first."""
    nodes, edges, hops = list(targets), [], [0, len(targets)]
    edge_counts = []
    for _ in range(layers):
        before = len(edges)
        for destination in range(hops[-2], hops[-1]):
            for edge in range(*csr.indptr[nodes[destination] : nodes[destination] + 2]):
                if csr.indices[edge] not in nodes:
                    nodes.append(csr.indices[edge])
                edges.append((nodes.index(csr.indices[edge]), destination, edge))
        hops.append(len(nodes))
        edge_counts.append(len(edges) - before)
    source, destination, edge = torch.tensor(edges).T
    return {
        "x": torch.from_numpy(features[nodes]),
        "edge_index": torch.stack([source, destination]),
        "edge_weight": None if weights is None else torch.from_numpy(weights)[edge],
        "n_id": torch.tensor(np.array(nodes)),
        "num_sampled_nodes": np.diff(hops).tolist(),
        "num_sampled_edges": edge_counts,
    }


@pytest.mark.needs_pyg
@pytest.mark.parametrize("trim", [True, False], ids=["trim", "whole"])
@pytest.mark.parametrize("variant", ["edge_index", "csr"])
@pytest.mark.parametrize("layers", [1, 2, 3])
@pytest.mark.parametrize("fanout", [None, 99], ids=["all", "fanout"])
@pytest.mark.parametrize("model", ["gcn", "sage", "gat"])
def test_pyg_trains_on_the_batches_of_a_neighbour_loader(model, fanout, layers, variant, trim):
    from torch_geometric.data import Data

    from backends.pyg.loader import batch_of, graph_data
    from backends.pyg.network import edge_list

    graph = awkward_graph(layers, weighted=model == "gcn")
    spec = ModelSpec(model, layers, graph.width, 5, graph.classes, heads=3, output_heads=2)
    targets = graph.nodes_of("train")[::-1][:5]
    whole = graph_data(graph, replace(spec, fanouts=(fanout,) * layers if fanout else ()))
    if fanout and model != "sage":
        assert torch.equal(whole.edge_index, edge_list(graph.csr)) and whole.loop.shape == (graph.nodes, 1)
    weight = None if whole.edge_weight is None else whole.edge_weight.numpy()
    csr = csr_from_edges(*whole.edge_index.numpy(), (graph.nodes, graph.nodes))
    data = Data(**sampled(csr, graph.features, weight, targets, layers))
    if "loop" in whole:
        data.loop = whole.loop[data.n_id]
    trainer = trainer_of("pyg", {"variant": variant}, graph, spec, None)
    batch = batch_of(data, targets, layers, trim, variant, model)
    logits = trainer.logits(batch)
    loss_of(logits, trainer.labels[torch.from_numpy(targets.copy())]).backward()
    expected, _, gradients = loss_and_gradients(graph, spec, initial_state(spec, 0), targets)
    assert np.abs(logits.detach().numpy() - expected).max() <= 1e-5 * np.abs(expected).max()
    assert max(errors(trainer.model.gradients(), gradients).values()) <= 2e-5
    rows = [csr.shape[0] for csr in trainer.layer_csrs(batch.structure)]
    counts = np.cumsum(data.num_sampled_nodes)[::-1][:layers].tolist()
    assert rows == (counts if trim else [counts[0]] * layers)


@pytest.mark.needs_pyg
def test_a_compiled_network_is_still_right_and_its_compile_time_is_a_phase():
    graph = awkward_graph(2, weighted=True)
    spec = ModelSpec("gcn", 2, graph.width, 5, graph.classes)
    clock = PlainClock()
    trainer = runtime(config_class("pyg")(variant="compile"), "train")
    plan = BatchPlan(graph.nodes_of("train"))
    trainer.prepare(graph, spec, TrainingSpec(threads=1), initial_state(spec, 0), plan, clock)
    assert clock.seconds["compile"] > clock.seconds["structure"]
    logits, _, gradients = trainer.loss_and_gradients(plan.nodes)
    expected, _, expected_gradients = loss_and_gradients(graph, spec, initial_state(spec, 0), plan.nodes)
    assert np.abs(logits - expected).max() <= 1e-5 * np.abs(expected).max()
    assert max(errors(gradients, expected_gradients).values()) <= 2e-5


@pytest.mark.needs_dgl
@pytest.mark.parametrize("workers", [0, 1, 2])
def test_dgl_trains_the_plans_batches_in_the_plans_order(workers):
    graph = awkward_graph(4, nodes=300, edges=1500)
    spec = ModelSpec("gcn", 2, graph.width, 5, graph.classes)
    trainer = runtime(config_class("dgl")(workers=workers), "train")
    plan = BatchPlan(graph.nodes_of("train"), 16, limit=5)
    still = TrainingSpec(threads=1, optimizer="sgd", rate=0.0)
    trainer.prepare(graph, spec, still, initial_state(spec, 0), plan, PlainClock())
    for epoch in range(2):
        clock = PlainClock()
        batches = list(trainer.batches(epoch, clock))
        assert list(clock.seconds) == ["load", "vectorize"]
        assert [batch.targets.tolist() for batch in batches] == [part.tolist() for part in plan.targets(epoch)]
        for batch in batches:
            expected = loss_and_gradients(graph, spec, initial_state(spec, 0), batch.targets)[0]
            assert np.abs(trainer.logits(batch).detach().numpy() - expected).max() <= 1e-5 * np.abs(expected).max()
    assert multiprocessing.active_children() == []
    trainer.close()


@pytest.mark.parametrize(
    ("backend", "model", "widths"),
    [
        pytest.param("pyg", "gcn", [5, 5, 4, 4], marks=pytest.mark.needs_pyg),
        pytest.param("pyg", "sage", [6, 5, 5], marks=pytest.mark.needs_pyg),
        pytest.param("pyg", "gat", [15, 15, 8, 8], marks=pytest.mark.needs_pyg),
        pytest.param("dgl", "gcn", [5, 5, 4, 4], marks=pytest.mark.needs_dgl),
        pytest.param("dgl", "sage", [5, 5, 4, 4], marks=pytest.mark.needs_dgl),
        pytest.param("dgl", "gat", [15, 15, 8, 8], marks=pytest.mark.needs_dgl),
    ],
)
def test_facts_list_the_widths_that_ran(backend, model, widths):
    graph = awkward_graph(3)
    spec = ModelSpec(model, 2, graph.width, 5, graph.classes, heads=3, output_heads=2)
    trainer = trainer_of(backend, {}, graph, spec, None)
    facts = trainer.facts()
    assert [spmm["width"] for spmm in facts["spmm"]] == widths
    assert {spmm["nnz"] for spmm in facts["spmm"]} == {adjacency_of(graph, model).csr.nnz}
    assert facts["variant"] == config_class(backend)().variant_for(model)
    if backend == "dgl":
        assert set(facts["libxsmm"]) == {"enabled", "seconds_with", "seconds_without"}


SAMPLING = [
    pytest.param("dgl", {}, marks=pytest.mark.needs_dgl, id="dgl"),
    pytest.param("pyg", {"loader": "khop"}, marks=pytest.mark.needs_pyg, id="pyg-trim"),
    pytest.param("pyg", {"loader": "khop", "trim": False}, marks=pytest.mark.needs_pyg, id="pyg-whole"),
    pytest.param("pyg", {"loader": "khop", "variant": "csr"}, marks=pytest.mark.needs_pyg, id="pyg-csr"),
    pytest.param("pyg", {"loader": "khop", "variant": "edge_index"}, marks=pytest.mark.needs_pyg, id="pyg-edges"),
]


@pytest.mark.parametrize("fanouts", [(4,), (2, 4), (4, 2), (1, 3, 2)], ids=str)
@pytest.mark.parametrize(
    ("model", "weighted"), [("gcn", False), ("gcn", True), ("sage", False), ("gat", False)], ids=str
)
@pytest.mark.parametrize(("backend", "options"), SAMPLING)
def test_peers_are_checked_on_the_definitions_samples(backend, options, model, weighted, fanouts):
    graph = awkward_graph(5, weighted=weighted)
    spec = ModelSpec(model, len(fanouts), graph.width, 5, graph.classes, heads=2, fanouts=fanouts)
    assert "train" in config_class(backend)(**options).draws
    check(backend, options, 7, graph, spec)


FEW_EDGES = {"none": [], "parallel": [(0, 1)] * 4 + [(1, 0), (2, 1), (2, 1)]}  # of 7 nodes; most read no other node


@pytest.mark.parametrize("edges", FEW_EDGES.values(), ids=FEW_EDGES)
@pytest.mark.parametrize(
    ("model", "weighted"), [("gcn", False), ("gcn", True), ("gat", False)], ids=["gcn", "gcn-weighted", "gat"]
)
@pytest.mark.parametrize(("backend", "options"), SAMPLING)
def test_nodes_that_read_no_sampled_edge_keep_their_self_loops(backend, options, model, weighted, edges):
    graph = graph_with(edges, nodes=7, seed=3)
    if weighted:
        weights = np.random.default_rng(3).uniform(0.2, 2.0, graph.csr.nnz)
        graph = replace(graph, edge_weights=weights.astype(np.float32))
    spec = ModelSpec(model, 2, graph.width, 3, graph.classes, fanouts=(2, 3))
    trainer = trainer_of(backend, options, graph, spec, 7)
    for targets in (np.arange(7), np.array([6]), np.array([2, 0])):
        logits, loss, _ = trainer.loss_and_gradients(targets)
        expected, expected_loss, _ = loss_and_gradients(graph, spec, initial_state(spec, 0), targets)
        assert np.abs(logits - expected).max() <= 1e-5 * np.abs(expected).max()
        assert abs(loss - expected_loss) <= 1e-5 * abs(expected_loss)
    trainer.close()


@pytest.mark.needs_pyg
def test_every_epoch_of_pyg_draws_other_edges_and_all_epochs_repeat():
    graph = awkward_graph(4, nodes=300, edges=3000)
    spec = ModelSpec("gcn", 2, graph.width, 5, graph.classes, fanouts=(2, 5))
    trainer = trainer_of("pyg", {"loader": "khop", "variant": "scatter"}, graph, spec, graph.nodes)
    batches = [next(trainer.batches(epoch, PlainClock())) for epoch in (0, 1, 0)]  # of the same targets
    drawn = [batch.structure.hops[0].edges.tolist() for batch in batches]
    assert drawn[0] == drawn[2] != drawn[1]


@pytest.mark.needs_pyg
@pytest.mark.parametrize("trim", [True, False], ids=["trim", "whole"])
def test_pyg_trims_the_batches_of_khop_and_names_their_origin(trim):
    graph = awkward_graph(3, nodes=300, edges=600)
    spec = ModelSpec("sage", 3, graph.width, 5, graph.classes)
    trainer = trainer_of("pyg", {"loader": "khop", "trim": trim}, graph, spec, 4)
    targets = graph.nodes_of("train")[::-1][:4]
    neighbourhood = khop(graph.csr, targets, [None] * 3)
    rows = [int((neighbourhood.distance <= distance).sum()) for distance in (3, 2, 1)]
    hops = trainer.mini_batch(targets).structure.hops
    assert [hop.rows for hop in hops] == (rows if trim else rows[:1] * 3)
    assert "not PyG's" in trainer.facts()["batches_by"]


@pytest.mark.parametrize(
    ("backend", "scenario", "size", "instead", "options"),
    [
        pytest.param("dgl", "train", None, "set training.batch_size", {}, marks=pytest.mark.needs_dgl),
        pytest.param("dgl", "infer", None, "backend.infer=graphinfer", {}, marks=pytest.mark.needs_dgl),
        pytest.param("dgl", "infer", 7, "graphinfer", {"infer": "layerwise"}, marks=pytest.mark.needs_dgl),
        pytest.param("pyg", "train", None, "set training.batch_size", {}, marks=pytest.mark.needs_pyg),
        pytest.param("pyg", "infer", None, "backend.infer=graphinfer", {}, marks=pytest.mark.needs_pyg),
        pytest.param("pyg", "infer", 7, "graphinfer", {"infer": "layerwise"}, marks=pytest.mark.needs_pyg),
    ],
)
def test_fanouts_where_all_neighbours_are_read_are_unsupported(backend, scenario, size, instead, options):
    graph = awkward_graph(1)
    spec = ModelSpec("sage", 2, graph.width, 5, graph.classes, fanouts=(2, 5))
    engine = runtime(config_class(backend)(**options), scenario)
    plan = BatchPlan(graph.nodes_of("train"), size)
    with pytest.raises(Unsupported, match=rf"reads all neighbours here, not model.fanouts=\[2, 5\].*{instead}"):
        engine.prepare(graph, spec, TrainingSpec(), initial_state(spec, 0), plan, PlainClock())


LAYERWISE = [
    pytest.param("dgl", {}, marks=pytest.mark.needs_dgl, id="dgl"),
    *(
        pytest.param("pyg", {"variant": variant}, marks=pytest.mark.needs_pyg, id=f"pyg-{variant}")
        for variant in ("best", "csr", "scatter")
    ),
]


@pytest.mark.parametrize("size", [None, 1, 7, 40])
@pytest.mark.parametrize("model", ["gcn", "sage", "gat"])
@pytest.mark.parametrize(("backend", "options"), LAYERWISE)
def test_layerwise_inference_gives_the_definitions_scores(backend, options, model, size):
    graph = awkward_graph(3, weighted=model == "gcn")
    spec = ModelSpec(model, 2, graph.width, 5, graph.classes, heads=3 if model == "gat" else 1, head="linear")
    nodes, state = np.array([30, 2, graph.nodes - 1, 0, 9]), initial_state(spec, 1)
    engine = runtime(config_class(backend)(infer="layerwise", **options), "infer")
    engine.prepare(graph, spec, TrainingSpec(threads=1), state, BatchPlan(nodes, size), PlainClock())
    clock = PlainClock()
    scores = engine.infer(clock)
    expected = loss_and_gradients(graph, spec, state, nodes)[0]
    assert np.abs(scores - expected).max() <= 1e-5 * np.abs(expected).max()
    assert engine.facts()["embeddings"] == 2 * graph.nodes and list(clock.seconds) == ["forward"]
    engine.close()
