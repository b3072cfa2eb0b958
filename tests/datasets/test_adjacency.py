"""Adjacency of the models: nodes whose weights leave no degree that has a root."""

from dataclasses import replace

import numpy as np
import pytest

from datasets.adjacency import add_self_loops, adjacency_of
from datasets.csr import csr_from_edges
from harness.verify.graphs import small_graph


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("weight", [-3.0, 0.0, -1.0], ids=["degrees below 0", "no edges", "degrees of 0"])
@pytest.mark.parametrize("model", ["gcn", "lightgcn"])
def test_a_node_without_a_positive_degree_is_scaled_by_zero(model: str, weight: float) -> None:
    graph = small_graph("multiclass", 4, weighted=True)
    assert graph.edge_weights is not None
    matrix = adjacency_of(replace(graph, edge_weights=np.full_like(graph.edge_weights, weight)), model)
    loops = 1.0 if model == "gcn" else 0.0
    degree = weight * graph.csr.in_degrees + loops
    assert matrix.inverse_sqrt_degree is not None and matrix.weight is not None
    expected = np.array([value**-0.5 if value > 0 else 0.0 for value in degree.tolist()], dtype=np.float32)
    np.testing.assert_allclose(matrix.inverse_sqrt_degree, expected, rtol=1e-6)
    assert np.isfinite(matrix.weight).all()


@pytest.mark.parametrize(
    ("numbers", "expected"),
    [
        ([7, 5, 6], [10, 8, 9]),
        ([-1, -2, 4], [4, 3, 5]),
        ([-(2**63), 2**63 - 1, 0], [3, 5, 4]),
        ([2**63 - 1, 2**63 - 4, 0], [5, 4, 3]),
    ],
    ids=["small", "negative", "whole range", "too large"],
)
def test_no_self_loop_has_the_id_of_an_edge_whatever_the_numbers_of_the_nodes(
    numbers: list[int], expected: list[int]
) -> None:
    csr = csr_from_edges(np.array([1, 2, 0]), np.array([0, 1, 2]), (3, 3))
    looped, old_positions = add_self_loops(csr, np.array(numbers))
    assert looped.ids[old_positions < 0].tolist() == expected
    assert sorted(looped.ids[old_positions >= 0].tolist()) == [0, 1, 2]
