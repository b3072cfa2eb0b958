"""Meshes are nearly a grid, symmetric and local."""

import numpy as np
import pytest

from datasets.registry import load_dataset

MESH = {"nodes": 2500}


def test_a_mesh_is_symmetric_local_and_nearly_a_grid(tmp_path):
    graph = load_dataset("mesh", MESH, tmp_path)
    csr = graph.csr
    edges = set(zip(csr.indices.tolist(), csr.destinations.tolist(), strict=True))
    assert edges == {(end, start) for start, end in edges}
    assert len(edges) == csr.nnz
    assert set(np.abs(csr.indices - csr.destinations).tolist()) == {1, 50, 51}
    assert csr.nnz / graph.nodes == pytest.approx(2 * (2 * 0.85 + 0.05), rel=0.06)


def test_a_whole_grid_has_every_street_and_no_diagonal(tmp_path):
    csr = load_dataset("mesh", {"nodes": 9, "missing": 0.0, "diagonals": 0.0}, tmp_path).csr
    assert csr.in_degrees.tolist() == [2, 3, 2, 3, 4, 3, 2, 3, 2]
    assert csr.indices[csr.indptr[4] : csr.indptr[5]].tolist() == [1, 3, 5, 7]
