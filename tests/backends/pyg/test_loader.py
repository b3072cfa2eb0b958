"""Counts of the nodes and edges of each hop where the sampler has none, and the order of a batch's edges and loops."""

import numpy as np
import pytest
import torch

from backends.batches import BatchPlan
from backends.model import ModelSpec, TrainingSpec, initial_state
from backends.registry import config_class, runtime
from tests.contract.test_parity import PlainClock
from tests.contract.test_peers import sampled
from tests.graphs import awkward_graph


@pytest.mark.needs_pyg
@pytest.mark.parametrize("layers", [1, 2, 3])
def test_hops_are_counted_where_pygs_sampler_does_not(layers):
    from torch_geometric.data import Data

    from backends.pyg.loader import with_counts

    graph = awkward_graph(layers)
    for targets in (graph.nodes_of("train")[::-1][:5], np.array([graph.nodes - 1])):  # the last node is isolated
        data = Data(**sampled(graph.csr, graph.features, None, targets, layers)) if len(targets) > 1 else None
        if data is None:
            data = Data(edge_index=torch.empty((2, 0), dtype=torch.long))
            expected = [1, *[0] * layers], [0] * layers
        else:
            expected = data.num_sampled_nodes, data.num_sampled_edges
        data.num_sampled_nodes = data.num_sampled_edges = None
        data.batch_size = len(targets)
        counted = with_counts(data, layers)
        assert (counted.num_sampled_nodes, counted.num_sampled_edges) == expected


@pytest.mark.needs_pyg
@pytest.mark.parametrize("fanouts", [(), (2, 3)], ids=str)
@pytest.mark.parametrize("trim", [True, False])
def test_mini_batches_of_edge_index_are_sorted_and_keep_the_targets_in_front(trim, fanouts):
    from torch_geometric import EdgeIndex

    graph = awkward_graph(3)
    spec = ModelSpec("gat", 2, graph.width, 4, graph.classes, heads=2, fanouts=fanouts)
    trainer = runtime(config_class("pyg")(loader="khop", variant="edge_index", trim=trim), "train")
    plan = BatchPlan(graph.nodes_of("train"), 7)
    trainer.prepare(graph, spec, TrainingSpec(threads=1), initial_state(spec, 0), plan, PlainClock())
    for batch, targets in zip(trainer.batches(0, PlainClock()), plan.targets(0), strict=True):
        assert batch.rows == slice(0, len(targets)) and np.array_equal(batch.targets, np.sort(targets))
        for hop in batch.structure.hops:
            assert isinstance(hop.edges, EdgeIndex) and hop.edges.is_sorted_by_col
            hop.edges.validate()


def appended_and_sorted(edges, weight, loop, rows):
    """Edges and weights with the self loops behind them, then sorted by destination: loops are the last of each row."""
    edges = torch.cat([edges, torch.arange(rows).expand(2, rows)], dim=1)
    order = torch.argsort(edges[1], stable=True)
    return edges[:, order], None if weight is None else torch.cat([weight, loop[:, 0]])[order]


@pytest.mark.needs_pyg
@pytest.mark.parametrize("order", ["by-destination", "shuffled"])
@pytest.mark.parametrize("case", ["awkward", "parallel", "none"])
@pytest.mark.parametrize("variant", ["csr", "edge_index", "scatter"])
@pytest.mark.parametrize("model", ["gcn", "gat"])
def test_loops_that_are_not_sampled_are_the_last_in_edges_of_their_nodes(model, variant, case, order):
    from torch_geometric import EdgeIndex
    from torch_geometric.data import Data

    from backends.pyg.loader import batch_of
    from backends.pyg.network import edge_list

    draw = np.random.default_rng(0)
    rows = 5
    if case == "awkward":  # with parallel edges; the last node is isolated
        csr = awkward_graph(1).csr
        edges, rows = edge_list(csr), csr.shape[0]
    elif case == "parallel":  # nodes 0, 2 and 4 read no other node
        edges = torch.tensor([[0, 0, 0, 3, 1, 1], [1, 1, 1, 1, 3, 3]])
    else:
        edges = torch.empty((2, 0), dtype=torch.long)
    count = edges.shape[1]
    if order == "shuffled":
        edges = edges[:, torch.from_numpy(draw.permutation(count))]
    weight, loop = None, torch.ones((rows, 1))
    if model == "gcn":
        weight, loop = (torch.from_numpy(draw.random(size, dtype=np.float32)) for size in (count, (rows, 1)))
    data = Data(x=torch.zeros((rows, 1)), edge_index=edges, edge_weight=weight, loop=loop, n_id=torch.arange(rows))
    hop = batch_of(data, np.arange(2), 1, False, variant, model).structure.hops[0]
    expected, expected_weight = appended_and_sorted(edges, weight, loop, rows)
    assert hop.rows == rows
    if variant == "csr":
        kind = torch.int64 if model == "gat" else torch.int32
        indptr = np.concatenate(([0], np.cumsum(np.bincount(expected[1].numpy(), minlength=rows))))
        assert hop.edges.shape == (rows, rows) and hop.weight is None
        assert hop.edges.crow_indices().dtype == hop.edges.col_indices().dtype == kind
        assert hop.edges.crow_indices().tolist() == indptr.tolist()
        assert hop.edges.col_indices().tolist() == expected[0].tolist()
        values = torch.ones(count + rows) if weight is None else expected_weight
        assert torch.equal(hop.edges.values(), values)
        return
    ends, weights = hop.edges, hop.weight
    if variant == "edge_index":
        assert isinstance(ends, EdgeIndex) and ends.is_sorted_by_col
        ends = ends.validate().as_tensor()
    else:  # takes edges in any order: the loops stay behind them
        assert torch.equal(ends[:, :count], edges)
        by_destination = torch.argsort(ends[1], stable=True)
        ends, weights = ends[:, by_destination], None if weights is None else weights[by_destination]
    assert torch.equal(ends, expected)
    assert (weights is None) == (weight is None) and (weights is None or torch.equal(weights, expected_weight))
