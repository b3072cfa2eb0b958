"""Shards as batches of PyG and DGL: the libraries compute on them what the definition computes on the graph."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from backends.agl.api import dgl_blocks, pyg_batches
from backends.agl.flat.job import FlattenJob, flatten_to
from backends.agl.flat.sampling_strategy import parse_sampling
from backends.model import ModelSpec, initial_state
from backends.reference.definition import loss_and_gradients
from tests.graphs import awkward_graph


@pytest.fixture(params=["full()", "uniform(3)", "uniform(3);uniform(2)"])
def flattened(request, tmp_path):
    """A graph with weights and features of edges, the folder of its shards, sage's logits by the definition."""
    graph = awkward_graph(5, weighted=True)
    marks = np.stack([graph.csr.indices, graph.csr.destinations], axis=1).astype(np.float32)
    graph = replace(graph, edge_features=marks)
    strategy = parse_sampling(request.param, 2, seed=4)
    flatten_to(tmp_path / "flat", graph, graph.nodes_of("train"), FlattenJob(strategy, shard_records=5))
    fanouts = tuple(fanout for fanout in strategy.fanouts if fanout is not None)
    spec = ModelSpec("sage", 2, graph.width, 5, graph.classes, fanouts=fanouts)
    plain = replace(graph, edge_weights=None, edge_features=None)
    logits = loss_and_gradients(plain, spec, initial_state(spec, 0), np.arange(graph.nodes), seed=4)[0]
    tensors = {name: torch.from_numpy(value) for name, value in initial_state(spec, 0).items()}
    return graph, tmp_path / "flat", tensors, logits, len(set(strategy.fanouts)) == 1


def layer(state, number, own, mean):
    """One layer of sage."""
    parts = (state[f"layers.{number}.{name}"] for name in ("weight_self", "weight_neigh", "bias"))
    weight_self, weight_neigh, bias = parts
    out = own @ weight_self + mean @ weight_neigh + bias
    return out.relu() if number == 0 else out


@pytest.mark.needs_pyg
def test_pyg_computes_the_definition(flattened):
    from torch_geometric.nn import SimpleConv
    from torch_geometric.utils import trim_to_layer

    graph, folder, state, logits, equal = flattened
    seen = []
    for data in pyg_batches(folder, 3, seed=1):
        hidden, edges = data.x, data.edge_index
        for number in range(2):
            hidden, edges, _ = trim_to_layer(number, data.num_sampled_nodes, data.num_sampled_edges, hidden, edges)
            hidden = layer(state, number, hidden, SimpleConv("mean")(hidden, edges))
        targets = data.n_id[: data.batch_size].numpy()
        if equal:  # PyG's layers read all sampled edges, whatever their own fanouts
            np.testing.assert_allclose(hidden[: data.batch_size], logits[targets], atol=1e-5)
        np.testing.assert_array_equal(data.y, graph.labels[targets])
        np.testing.assert_array_equal(data.n_id[data.edge_index].T.numpy(), data.edge_attr.numpy())
        assert data.validate() and len(data.edge_weight) == data.num_edges
        seen += targets.tolist()
    assert sorted(seen) == graph.nodes_of("train").tolist()


@pytest.mark.needs_dgl
def test_dgl_computes_the_definition(flattened):
    import dgl

    graph, folder, state, logits, _ = flattened
    seen = []
    for inputs, targets, blocks in dgl_blocks(folder, 3, seed=1):
        hidden = blocks[0].srcdata["feat"]
        np.testing.assert_array_equal(hidden, graph.features[inputs])
        for number, block in enumerate(blocks):
            mean = dgl.ops.copy_u_mean(block, hidden)
            hidden = layer(state, number, hidden[: block.num_dst_nodes()], mean)
        np.testing.assert_allclose(hidden, logits[targets], atol=1e-5)
        np.testing.assert_array_equal(blocks[-1].dstdata["label"], graph.labels[targets])
        sources, destinations = blocks[0].edges(order="eid")
        ends = np.stack([inputs[sources], inputs[destinations]], axis=1)
        np.testing.assert_array_equal(blocks[0].edata["feat"], ends)
        seen += targets.tolist()
    assert sorted(seen) == graph.nodes_of("train").tolist()
