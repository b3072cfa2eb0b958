"""The gate's graphs: the small one has every special case, slices contain their targets and stay small."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from backends.model import ModelSpec, initial_state
from backends.reference import definition
from harness.verify import graphs
from harness.verify.graphs import neighbourhood, small_graph


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
        nodes = neighbourhood(graph, graph.nodes_of("train")[:count], hops)
    assert len(set(nodes.tolist())) == len(nodes) <= 100
    assert graph.subgraph(nodes).csr.nnz <= (hops + 1) * max(edges, int(graph.csr.in_degrees[nodes[0]]))


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
