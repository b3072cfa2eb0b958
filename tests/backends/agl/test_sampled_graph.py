"""Samples of GraphTrainer under settings that the parity gate does not cover, against the definition in numpy."""

import numpy as np
import pytest

from backends.agl.flat.sampling_strategy import parse_sampling
from backends.agl.flat.source import Source
from backends.agl.sampled_graph import SampledGraph
from backends.agl.vectorize import LayerBuilder
from backends.kernels import definition
from backends.kernels.neighbourhood import reaches
from tests.graphs import awkward_graph


@pytest.mark.parametrize("scope", ["node", "target"])
@pytest.mark.parametrize("filtering", [None, "weight > 0.8"])
@pytest.mark.parametrize(
    "text", ["uniform(3);uniform(2)", "uniform(2, replacement=true)", "weighted(2)", "topk(2, reverse=true)", "full()"]
)
def test_edges_equal_the_definition_under_every_setting(tmp_path, text, filtering, scope):
    graph = awkward_graph(3, weighted=True)
    strategy, targets = parse_sampling(text, 2, scope, 7), np.array([1, 4, 9, 22, 31])
    neighbourhood = SampledGraph(graph, LayerBuilder("sage"), strategy, filtering).search(targets)
    table = Source.build(graph, strategy, filtering, tmp_path / "source").table
    drawing = definition.Drawing(strategy.method, strategy.seed, table.weight, strategy.replacement)
    steps = reaches(strategy.fanouts)
    expected = definition.search(table.csr, drawing, targets, steps, strategy.scope == "target")
    assert len(expected.edges.ids) > len(targets)
    assert neighbourhood.nodes.tolist() == (expected.numbers % graph.nodes).tolist()
    assert neighbourhood.positions.tolist() == np.asarray(expected.edges.positions).tolist()
    assert neighbourhood.csr.indices.tolist() == np.asarray(expected.local).tolist()


@pytest.mark.parametrize("model", ["gcn", "sage", "gat"])
def test_features_are_read_where_they_lie_once_nearly_all_nodes_are_reached(model):
    """The first layer's columns are then the graph's; what it multiplies is the same."""
    graph, strategy = awkward_graph(3), parse_sampling("full()", 3, "node", 7)
    sampled, targets = SampledGraph(graph, LayerBuilder(model), strategy, None), np.array([0, 4, 22, graph.nodes - 1])
    neighbourhood = sampled.search(targets, True)
    assert len(neighbourhood.nodes) > 0.9 * graph.nodes
    numbered, (matrices, nodes) = sampled.matrices(neighbourhood, "tight"), sampled.layers(targets, "tight")
    assert nodes is None and matrices[0].csr.shape == (numbered[0].csr.shape[0], graph.nodes)
    np.testing.assert_array_equal(matrices[0].csr.indices, neighbourhood.nodes[numbered[0].csr.indices])
    np.testing.assert_array_equal(matrices[0].own_columns, neighbourhood.nodes[: matrices[0].csr.shape[0]])
    few, nodes = sampled.layers(targets, "paper")
    assert nodes is not None and few[0].csr.shape[1] == len(nodes)
