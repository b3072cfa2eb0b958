"""LDG and Fennel beside their definition: every part is looked at for every node."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from backends.kernels.extension import extension
from backends.kernels.partition import UndirectedGraph
from tests.backends.distpart.plain_graphs import graph_of

pytestmark = pytest.mark.skipif(extension is None, reason="the kernels are not built")


def streamed(graph, count, bounds, slope, passes):
    """Of the parts with room the most attractive, the lightest, the first; without room the lightest."""
    parts, loads = np.full(graph.nodes, -1), np.zeros((count, graph.node_weights.shape[1]), dtype=np.int64)
    for node in list(range(graph.nodes)) * passes:
        weights = graph.node_weights[node]
        if parts[node] >= 0:
            loads[parts[node]] -= weights
        near = parts[graph.neighbours[graph.starts[node] : graph.starts[node + 1]]]
        neighbours = np.bincount(near[near >= 0], minlength=count)
        price = slope * 1.5 * np.sqrt(loads[:, 0])
        value = neighbours - price if slope else neighbours * (1.0 - loads[:, 0] / bounds[0])
        fits = ((loads + weights <= bounds) | (weights == 0)).all(axis=1)
        room = [part for part in range(count) if fits[part]]
        chosen = min(room or range(count), key=lambda part: (-value[part] if room else 0, loads[part, 0], part))
        parts[node] = chosen
        loads[chosen] += weights
    return parts


@given(
    seed=st.integers(0, 2**32 - 1),
    nodes=st.integers(1, 60),
    degree=st.integers(0, 4),
    count=st.integers(1, 9),
    constraints=st.integers(1, 2),
    slope=st.sampled_from([0.0, 0.3]),
    passes=st.integers(1, 2),
)
def test_streamed_parts_are_those_of_the_definition(seed, nodes, degree, count, constraints, slope, passes):
    draw = np.random.default_rng(seed)
    graph = graph_of(*draw.integers(0, nodes, (2, nodes * degree)), nodes)
    weights = draw.integers(0, 4, (nodes, constraints))
    fine = UndirectedGraph.of(graph.csr, weights, 1)
    bounds = np.maximum(-(-weights.sum(0) // count), 1)
    expected = streamed(fine, count, bounds, slope, passes)
    np.testing.assert_array_equal(fine.streamed(count, bounds, slope, passes), expected)
