"""Counts of the nodes and edges of each hop, for batches of samplers that do not count them."""

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
