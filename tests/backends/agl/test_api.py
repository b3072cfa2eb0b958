"""AGL's programming interface: a GCN in the style of AGL's demo equals the definition."""

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
import torch
from torch import nn

from backends.agl.api import aggregator, look_up, pruning, subgraph_vectorize
from backends.agl.flat.job import FlattenJob, flatten_to
from backends.agl.flat.reader import GraphFeatureReader
from backends.agl.flat.sampling_strategy import SamplingStrategy
from backends.model import ModelSpec, initial_state
from backends.reference.definition import loss_and_gradients
from tests.graphs import awkward_graph


class GCNLayer(nn.Module):
    def __init__(self, width_in, width_out):
        super().__init__()
        self.weight = nn.Parameter(torch.empty(width_in, width_out))
        self.bias = nn.Parameter(torch.zeros(width_out))

    def forward(self, adj, node_embedding):
        return aggregator(adj, node_embedding @ self.weight) + self.bias


class GCNModel(nn.Module):
    def __init__(self, widths):
        super().__init__()
        self.layers = nn.ModuleList(GCNLayer(*pair) for pair in pairwise(widths))

    def forward(self, adj_list, node_feature, target_id):
        node_embedding = node_feature
        for k, layer in enumerate(self.layers):
            node_embedding = layer(adj_list[k], node_embedding)
            if k + 1 < len(self.layers):
                node_embedding = torch.relu(node_embedding)
        return look_up(node_embedding, target_id)


@pytest.mark.parametrize("form", ["tight", "paper", "full"])
@pytest.mark.parametrize("fanouts", [None, (2, 3, 2)], ids=["all", "sampled"])
@pytest.mark.parametrize("layers", [1, 2, 3])
def test_a_users_gcn_equals_the_definition(layers, fanouts, form):
    graph = awkward_graph(4, weighted=True)
    fanouts = fanouts and fanouts[:layers]
    spec = ModelSpec("gcn", layers, graph.width, 5, graph.classes, fanouts=fanouts or ())
    state, targets = initial_state(spec, 0), graph.nodes_of("train")[::-1].copy()
    model = GCNModel([graph.width, *[5] * (layers - 1), graph.classes])
    with torch.no_grad():
        for name, value in state.items():
            model.get_parameter(name).copy_(torch.from_numpy(value))
    adj, node_feature, edge_feature = subgraph_vectorize(graph, targets, hops=layers, fanouts=fanouts, seed=3)
    logits = model(pruning(adj, form), node_feature, targets)
    nn.functional.cross_entropy(logits, torch.from_numpy(graph.labels[targets])).backward()
    expected, _, gradients = loss_and_gradients(graph, spec, state, targets, seed=3)
    assert edge_feature is None
    np.testing.assert_allclose(logits.detach().numpy(), expected, atol=1e-5)
    for name, value in gradients.items():
        np.testing.assert_allclose(model.get_parameter(name).grad.numpy(), value, atol=2e-5, err_msg=name)


@pytest.mark.parametrize("fanouts", [None, (2, 3)], ids=["all", "sampled"])
@pytest.mark.parametrize("model", ["gcn", "sage"])
def test_graph_features_vectorise_to_what_the_graph_does(tmp_path, fanouts, model):
    graph = awkward_graph(4, weighted=model == "gcn")
    marks = np.stack([graph.csr.indices, graph.csr.destinations], axis=1).astype(np.float32)
    graph, targets = replace(graph, edge_features=marks), np.array([3, 0, 17])
    strategy = SamplingStrategy(fanouts or (None, None), "uniform" if fanouts else "full", seed=5)
    flatten_to(tmp_path / "flat", graph, np.sort(targets), FlattenJob(strategy))
    records = next(GraphFeatureReader(tmp_path / "flat").encoded_batches(9))
    outputs = []
    for source in (graph, records):
        adj, node_feature, edge_feature = subgraph_vectorize(source, targets, 2, model, fanouts, seed=5)
        first, second = pruning(adj)
        outputs.append((look_up(aggregator(second, aggregator(first, node_feature)), targets), edge_feature))
    np.testing.assert_allclose(outputs[0][0], outputs[1][0], rtol=1e-5)
    np.testing.assert_array_equal(outputs[0][1], outputs[1][1])
    with pytest.raises(ValueError, match="targets are not those of the GraphFeatures"):
        subgraph_vectorize(records, targets[:2], 2, model, fanouts)
    with pytest.raises(ValueError, match="the GraphFeatures have 2 hops, 3 are asked for: flatten with -h 3"):
        subgraph_vectorize(records, targets, 3, model)


def test_samples_of_scope_target_vectorise_together_as_one_by_one(tmp_path):
    graph, targets = awkward_graph(4), np.array([1, 2, 3, 8, 17, 30])
    strategy = SamplingStrategy((2, 3), scope="target", seed=5)
    flatten_to(tmp_path / "flat", graph, targets, FlattenJob(strategy))
    reader = GraphFeatureReader(tmp_path / "flat")

    def outputs(size):
        rows = {}
        for records in reader.encoded_batches(size, seed=3):
            some = records.decode().targets
            adj, node_feature, _ = subgraph_vectorize(records, some, 2, "sage", strategy.fanouts)
            first, second = pruning(adj)
            output = look_up(aggregator(second, aggregator(first, node_feature)), some)
            rows |= dict(zip(some.tolist(), output.numpy(), strict=True))
        return np.stack([rows[target] for target in targets.tolist()])

    np.testing.assert_allclose(outputs(6), outputs(1), rtol=1e-5)


@pytest.mark.parametrize("fanouts", [None, (2, 3)], ids=["all", "sampled"])
@pytest.mark.parametrize("model", ["gcn", "sage"])
def test_edge_features_follow_their_edges(model, fanouts):
    graph = awkward_graph(2)
    marks = np.stack([graph.csr.indices, graph.csr.destinations], axis=1).astype(np.float32) + 1
    graph = replace(graph, edge_features=marks)
    adj, _, edge_feature = subgraph_vectorize(graph, np.array([7, 0, 12]), 2, model, fanouts)
    neighbourhood = adj.neighbourhood
    ends = (
        np.stack(
            [neighbourhood.nodes[neighbourhood.csr.indices], neighbourhood.nodes[neighbourhood.csr.destinations]],
            axis=1,
        )
        + 1.0
    )
    np.testing.assert_array_equal(edge_feature.numpy(), ends)


def test_targets_may_repeat_and_need_no_order():
    graph = awkward_graph(3)
    targets = np.array([9, 4, 9, 30])
    adj, node_feature, _ = subgraph_vectorize(graph, targets, 1, "sage")
    means = look_up(aggregator(pruning(adj)[0], node_feature, "mean"), targets)
    rows = [graph.features[graph.csr.indices[slice(*graph.csr.indptr[node : node + 2])]] for node in targets]
    expected = np.stack([row.mean(axis=0) if len(row) else np.zeros(graph.width) for row in rows])
    np.testing.assert_allclose(means.numpy(), expected, atol=1e-6)


def test_look_up_refuses_another_number_of_targets():
    with pytest.raises(ValueError, match="3 targets but 2 embeddings"):
        look_up(torch.zeros(2, 4), np.array([1, 2, 3]))


def test_fanouts_of_another_number_of_layers_are_refused():
    with pytest.raises(ValueError, match=r"fanouts=\(2,\) has 1 entries for 2 hops: give one per layer"):
        subgraph_vectorize(awkward_graph(1), np.array([3]), 2, "sage", (2,))
