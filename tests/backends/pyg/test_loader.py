"""Counts of the nodes and edges of each hop, for batches of samplers that do not count them."""

import numpy as np
import pytest
import torch

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
