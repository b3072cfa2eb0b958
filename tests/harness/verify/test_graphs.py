"""The gate's graphs: the small one has every special case, slices contain their targets and fill their bounds."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from backends.model import ModelSpec, initial_state
from backends.reference import definition
from backends.registry import config_class
from datasets.csr import csr_from_edges
from datasets.graph import Graph
from harness.planning.schema import DatasetConfig, ModelConfig, RunConfig, ScenarioConfig, TrainingConfig
from harness.verify import graphs
from harness.verify.graphs import neighbourhood, slice_of, small_graph

HUBS = 30


def config(scenario="train", batch_size=None):
    return RunConfig(
        dataset=DatasetConfig("tiny"),
        model=ModelConfig("gcn", layers=2),
        backend=config_class("dummy")(),
        training=TrainingConfig(batch_size=batch_size),
        scenario=ScenarioConfig(scenario),
        threads=1,
    )


def graph_of(sources, destinations, nodes, trained):
    """A graph without features and self loops, whose first nodes are trained."""
    split = np.where(np.arange(nodes) < trained, 0, 1).astype(np.int8)
    no_loop = sources != destinations
    csr = csr_from_edges(sources[no_loop], destinations[no_loop], (nodes, nodes))
    return Graph("slices", csr, labels=np.zeros(nodes, np.int64), split=split, classes=2, task="multiclass")


def hubs_first(nodes, trained):
    """Hubs with an in-edge from every node come first; every node has three more from any."""
    everyone = np.arange(nodes)
    sources = np.concatenate((np.tile(everyone, HUBS), np.random.default_rng(0).integers(0, nodes, 3 * nodes)))
    destinations = np.concatenate((np.repeat(everyone[:HUBS], nodes), np.repeat(everyone, 3)))
    return graph_of(sources, destinations, nodes, trained)


@pytest.mark.parametrize("weighted", [False, True])
def test_the_small_graph_is_awkward(weighted):
    graph = small_graph("multiclass", 4, weighted=weighted)
    edges = set(zip(graph.csr.indices.tolist(), graph.csr.destinations.tolist(), strict=True))
    assert len(edges) < graph.csr.nnz, "parallel edges"
    assert any((b, a) not in edges for a, b in edges), "asymmetric"
    assert graph.csr.in_degrees[0] > 5 * np.median(graph.csr.in_degrees), "a hub"
    assert (graph.edge_weights is not None) == weighted


@pytest.mark.parametrize("task", ["multiclass", "multilabel"])
def test_special_nodes_are_among_the_first_that_are_trained(task):
    graph = small_graph(task, 4, weighted=False)
    split = np.flatnonzero(graph.split == 0)[:5]
    isolated = [node for node in split if graph.csr.in_degrees[node] == 0 and node not in graph.csr.indices]
    assert len(isolated) == 1 and isolated[0] in graph.nodes_of("train")[:2], "an isolated node"
    assert len(np.setdiff1d(split, graph.nodes_of("train"))) == 1, "a node without a label"
    assert task == "multiclass" or (graph.labels[graph.nodes_of("train")[:5]] == -1).sum() == 1, "a missing entry"


@given(st.integers(1, 3), st.integers(1, 60), st.integers(20, 4000))
def test_slices_hold_their_targets_and_stay_small(hops, count, edges):
    graph = small_graph("multiclass", 4, weighted=False, nodes=200)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(graphs, "SLICE_NODES", 100)
        patch.setattr(graphs, "SLICE_EDGES", edges)
        targets = graph.nodes_of("train")[:count]
        nodes = neighbourhood(graph, targets, hops)
    assert len(set(nodes.tolist())) == len(nodes) <= 100
    taken = min(count, 100 // (hops + 1), len(nodes))
    assert taken > 0 and nodes[:taken].tolist() == targets[:taken].tolist()
    assert graph.subgraph(nodes).csr.nnz <= edges


def test_wide_layers_make_slices_small(monkeypatch):
    """A ReLU whose sign flips in float32 changes a gradient: of many more outputs one does in every state."""
    ends = np.random.default_rng(0).integers(0, 5000, (2, 20_000))
    graph, narrow, wide = graph_of(*ends, 5000, 5000), config(), config()
    wide.model.hidden = 10_000
    sizes = [part.nodes for cell in (narrow, wide) for part in slice_of(graph, cell).values()]
    assert sizes[0] == graphs.SLICE_NODES and 3 <= sizes[1] <= graphs.SLICE_OUTPUTS // 10_000
    one_of_many = replace(graph.subgraph(np.arange(3000)), graph_ids=np.zeros(3000, dtype=np.int64), inductive=True)
    assert ["first graph" in slice_of(one_of_many, cell) for cell in (narrow, wide)] == [True, False]


def test_the_slice_of_a_dense_graph_has_the_edges_that_it_may_have(monkeypatch):
    monkeypatch.setattr(graphs, "SLICE_EDGES", 4000)
    ends = np.random.default_rng(0).integers(0, 1000, (2, 100_000))
    ((name, part),) = slice_of(graph_of(*ends, 1000, 1000), config()).items()
    assert 0.95 * 4000 < part.csr.nnz <= 4000
    assert name == f"neighbourhood of {part.nodes} targets"


@pytest.mark.parametrize("trained", [3000, HUBS, 1], ids=["all are trained", "hubs are trained", "one hub is trained"])
def test_hubs_neither_empty_a_slice_nor_are_all_read(trained, monkeypatch):
    monkeypatch.setattr(graphs, "SLICE_NODES", 300)
    monkeypatch.setattr(graphs, "SLICE_EDGES", 2000)
    monkeypatch.setattr(graphs, "SLICE_READS", 9000)
    graph = hubs_first(3000, trained)
    ((name, part),) = slice_of(graph, config()).items()
    assert 290 <= part.nodes <= 300 and 149 <= part.csr.nnz <= 2000
    assert graph.csr.in_degrees[part.node_ids].sum() <= 9000
    assert trained > 1 or name == "neighbourhood of 1 targets"


def test_targets_come_first_and_from_anywhere_in_the_graph():
    graph = small_graph("multiclass", 4, weighted=False, nodes=200)
    (part,) = slice_of(graph, config(batch_size=16)).values()
    trained = graph.nodes_of("train")
    assert part.nodes_of("train")[:16].tolist() == list(range(16))
    assert part.node_ids[:16].max() > trained[len(trained) // 2]


def test_three_nodes_are_their_own_slice():
    graph = graph_of(np.array([0, 1]), np.array([1, 2]), 3, 3)
    ((name, part),) = slice_of(graph, config()).items()
    assert (name, part.nodes, part.csr.nnz) == ("neighbourhood of 3 targets", 3, 2)


def test_where_no_node_is_trained_any_nodes_are_targets_of_inference():
    graph = graph_of(np.array([0, 1]), np.array([1, 2]), 3, 0)
    assert slice_of(graph, config()) == {}
    assert list(slice_of(graph, config("infer"))) == ["neighbourhood of 3 targets"]


def test_a_whole_neighbourhood_gives_targets_the_logits_of_the_whole_graph():
    graph = small_graph("multiclass", 4, weighted=False, nodes=400)
    targets = graph.nodes_of("train")[2:5]
    nodes = neighbourhood(graph, targets, 2)
    spec = ModelSpec("sage", 2, graph.width, 8, 4)
    state = initial_state(spec, 0)
    whole, _, _ = definition.loss_and_gradients(graph, spec, state, targets)
    part, _, _ = definition.loss_and_gradients(graph.subgraph(nodes), spec, state, np.arange(3))
    assert len(nodes) < graph.nodes
    np.testing.assert_allclose(part, whole, rtol=1e-12)
