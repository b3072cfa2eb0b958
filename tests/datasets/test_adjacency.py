"""Adjacency of the models: nodes whose weights leave no degree that has a root."""

from dataclasses import replace

import numpy as np
import pytest

from datasets.adjacency import adjacency_of
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
