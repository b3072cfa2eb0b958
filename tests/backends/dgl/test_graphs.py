"""Blocks whose self loops are added after sampling, against the edge list with the loops behind its edges."""

from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
import torch

from backends.batches import BatchPlan
from backends.model import ModelSpec, TrainingSpec, initial_state
from backends.registry import config_class, runtime
from datasets.adjacency import add_self_loops, adjacency_of
from tests.contract.test_parity import PlainClock, trainer_of
from tests.contract.test_peers import graph_with
from tests.graphs import awkward_graph

pytestmark = pytest.mark.needs_dgl


def weighted(graph):
    """The graph with another weight on each edge, parallel ones too."""
    weights = np.random.default_rng(0).uniform(0.2, 2.0, graph.csr.nnz)
    return replace(graph, edge_weights=weights.astype(np.float32))


GRAPHS = {
    "awkward": lambda: awkward_graph(2, nodes=60, edges=300),  # its last node is isolated
    "no-edges": lambda: graph_with([], nodes=5, seed=0),
    "parallel": lambda: graph_with([(0, 1)] * 4 + [(1, 0), (2, 1), (2, 1)], nodes=4, seed=0),  # nodes 2 and 3 read none
}


def blocks_of(graph, sampled_graph, sampler):
    """The blocks of two batches of two layers: all nodes backwards, and the isolated last node alone."""
    from backends.dgl.sampling import DefinedSampler, NeighbourSampler

    of_name = {"dgl": NeighbourSampler([2, 3]), "definition": DefinedSampler(graph.csr, (2, 3), 0)}
    for targets in (np.arange(graph.nodes)[::-1].copy(), np.array([graph.nodes - 1])):
        seeds = torch.from_numpy(targets).to(sampled_graph.idtype)
        yield from of_name[sampler].sample_blocks(sampled_graph, seeds)[2]


def appended_loops(block):
    """Sources and destinations of a block's edges, in their order, and then of a self loop for each destination."""
    nodes = torch.arange(block.num_dst_nodes(), dtype=block.idtype)
    return [torch.cat([ends, nodes]) for ends in block.edges(order="eid")]


def appended_weights(block, graph):
    """Gcn's weights of the edges of ``appended_loops``."""
    weight = torch.from_numpy(adjacency_of(graph, "gcn").weight)
    is_edge = torch.from_numpy(add_self_loops(graph.csr)[1] >= 0)
    edges, nodes = block.edata["_ID"].long(), block.dstdata["_ID"].long()
    return torch.cat([weight[is_edge][edges], weight[~is_edge][nodes]])


def ascending(*columns):
    """The rows of a table, sorted."""
    return sorted(zip(*(column.tolist() for column in columns), strict=True))


@pytest.mark.parametrize("sampler", ["dgl", "definition"])
@pytest.mark.parametrize("name", GRAPHS)
def test_blocks_with_loops_have_the_edges_and_weights_of_the_appended_list(name, sampler):
    from backends.dgl.graphs import LoopFreeGraph

    graph = weighted(GRAPHS[name]())
    loop_free = LoopFreeGraph(graph.csr, adjacency_of(graph, "gcn"), weighted=False)
    blocks = list(blocks_of(graph, loop_free.graph, sampler))
    assert len(blocks) == 4
    for block in blocks:
        hop, sources_and_destinations = loop_free.hop(block), appended_loops(block)
        assert (hop.rows, hop.scale, hop.features) == (block.num_dst_nodes(), None, None)
        assert hop.graph.num_src_nodes() == block.num_src_nodes() and hop.graph.num_dst_nodes() == hop.rows
        assert hop.graph.idtype == block.idtype == torch.int32
        assert hop.weight.dtype == torch.float32 and hop.weight.shape == (hop.graph.num_edges(), 1)
        assert torch.equal(hop.graph.srcdata["_ID"], block.srcdata["_ID"])
        expected = ascending(*sources_and_destinations, appended_weights(block, graph))
        assert ascending(*hop.graph.edges(order="eid"), hop.weight[:, 0]) == expected


@pytest.mark.parametrize("sampler", ["dgl", "definition"])
@pytest.mark.parametrize("name", GRAPHS)
def test_blocks_with_loops_are_csc_matrices_in_the_order_of_their_edges(name, sampler):
    from backends.dgl.graphs import LoopFreeGraph

    graph = GRAPHS[name]()
    loop_free = LoopFreeGraph(graph.csr, adjacency_of(graph, "gat"), weighted=False)
    for block in blocks_of(graph, loop_free.graph, sampler):
        if sampler == "dgl":
            assert "csc" in block.formats()["created"]
        hop = loop_free.hop(block)
        assert hop.scale is None and hop.weight is None
        assert hop.graph.formats()["created"] == ["csc"]
        indptr, sources, edges = hop.graph.adj_tensors("csc")
        assert {indptr.dtype, sources.dtype, edges.dtype} == {torch.int32}
        assert edges.tolist() == list(range(hop.graph.num_edges()))
        assert sources[indptr[:-1].long()].tolist() == list(range(hop.rows))
        assert indptr.diff().tolist() == (block.in_degrees() + 1).tolist()


@pytest.mark.parametrize("sampler", ["dgl", "definition"])
@pytest.mark.parametrize("name", GRAPHS)
@pytest.mark.parametrize("form", ["scale", "weight", "attention"])
def test_results_and_gradients_are_those_of_the_appended_list(form, name, sampler):
    from backends.dgl.graphs import LoopFreeGraph
    from backends.dgl.network import DglHop, aggregate, attend
    from backends.dgl.quiet import dgl

    graph = weighted(GRAPHS[name]()) if form == "weight" else GRAPHS[name]()
    adjacency = adjacency_of(graph, "gat" if form == "attention" else "gcn")
    loop_free = LoopFreeGraph(graph.csr, adjacency, weighted=False)
    for block in blocks_of(graph, loop_free.graph, sampler):
        hop, count = loop_free.hop(block), block.num_src_nodes()
        ends = tuple(appended_loops(block))
        appended = DglHop(dgl.create_block(ends, count, hop.rows, idtype=block.idtype), hop.rows)
        if form == "scale":
            appended.scale = torch.from_numpy(adjacency.inverse_sqrt_degree)[block.srcdata["_ID"].long(), None]
        elif form == "weight":
            appended.weight = appended_weights(block, graph)[:, None]
        assert (hop.scale is None, hop.weight is None) == (appended.scale is None, appended.weight is None)
        draw = torch.Generator().manual_seed(0)
        operands = [torch.randn(size, generator=draw) for size in ((count, 2, 3), (count, 2, 1), (hop.rows, 2, 1))]
        outputs = []
        for one in (hop, appended):
            x, *scores = leaves = [operand.clone().requires_grad_() for operand in operands]
            out = attend(one.graph, x, *scores, 0.2, 0.0) if form == "attention" else aggregate(x.flatten(1), one)
            out.square().sum().backward()
            outputs.append([out.detach(), *(leaf.grad for leaf in leaves if leaf.grad is not None)])
        assert len(outputs[0]) == len(outputs[1]) == (4 if form == "attention" else 2)
        for ours, expected in zip(*outputs, strict=True):
            torch.testing.assert_close(ours, expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("model", ["gcn", "gat"])
def test_only_the_graph_that_is_sampled_is_built_where_the_model_has_fanouts(monkeypatch, model):
    from backends.dgl import graphs

    built, graph_of = [], graphs.graph_of
    monkeypatch.setattr(graphs, "graph_of", lambda csr: built.append(csr) or graph_of(csr))
    graph = awkward_graph(1)
    spec = ModelSpec(model, 2, graph.width, 5, graph.classes, fanouts=(2, 3))
    trainer = runtime(config_class("dgl")(), "train")
    plan = BatchPlan(graph.nodes_of("train"), 7)
    trainer.prepare(graph, spec, TrainingSpec(threads=1), initial_state(spec, 0), plan, PlainClock())
    assert built == [graph.csr]
    trainer.close()


@pytest.mark.parametrize("variant", ["best", "weighted"])
@pytest.mark.parametrize("model", ["gcn", "sage", "gat"])
def test_dgl_samples_raw_edges_by_fanout_and_keeps_every_self_loop(model, variant):
    if model != "gcn":
        variant = "best"
    graph = awkward_graph(4, nodes=300, edges=3000)
    spec = ModelSpec(model, 2, graph.width, 5, graph.classes, fanouts=(2, 5))
    trainer = trainer_of("dgl", {"variant": variant}, graph, spec, 16)
    adjacency, drawn = adjacency_of(graph, model), []
    raw_edges = Counter(pairs_of(graph.csr.indices, graph.csr.destinations))
    looped_edges = pairs_of(adjacency.csr.indices, adjacency.csr.destinations)
    for epoch in range(2):
        for batch in trainer.batches(epoch, PlainClock()):
            for hop, fanout in zip(batch.structure.hops, spec.fanouts, strict=True):
                nodes = hop.graph.srcdata["_ID"].numpy()
                source, destination = (ends.numpy() for ends in hop.graph.edges(order="eid"))
                is_loop = source == destination
                edges = Counter(pairs_of(nodes[source[~is_loop]], nodes[destination[~is_loop]]))
                assert edges <= raw_edges  # each as often as it is parallel there at most
                sampled = np.bincount(destination[~is_loop], minlength=hop.rows)
                loops = np.bincount(destination[is_loop], minlength=hop.rows)
                np.testing.assert_array_equal(sampled, np.minimum(graph.csr.in_degrees[nodes[: hop.rows]], fanout))
                assert (loops == (model != "sage")).all()
                assert (hop.weight is not None) == (variant == "weighted")
                if hop.weight is not None:
                    weights = dict(zip(looped_edges, adjacency.weight.tolist(), strict=True))  # equal where parallel
                    expected = [weights[edge] for edge in pairs_of(nodes[source], nodes[destination])]
                    np.testing.assert_array_equal(hop.weight[:, 0].tolist(), expected)
            drawn.append(edges)
    assert drawn[0] != drawn[len(drawn) // 2]
    losses = [trainer.epoch(index, PlainClock()) for index in range(20)]
    assert np.mean(losses[-5:]) < np.mean(losses[:5])
    trainer.close()


def pairs_of(sources, destinations):
    return list(zip(sources.tolist(), destinations.tolist(), strict=True))
