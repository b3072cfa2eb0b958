"""The loader of graphs without features and labels on tiny CSR files."""

from pathlib import Path

import numpy as np
import pytest

from datasets.published import structure_only
from tests.data.layouts import edges_of


def test_rows_of_the_file_are_sources(tmp_path: Path) -> None:
    path = tmp_path / "web.npz"
    np.savez(path, indptr=np.array([0, 2, 2, 4]), indices=np.array([1, 2, 0, 2]), shape=np.array([3, 3]))
    graph = structure_only.load("web", {path.name: path}, {})
    assert edges_of(graph) == [(0, 1), (0, 2), (2, 0)]
    assert graph.csr.ids[graph.csr.destinations == 0].tolist() == [2]
    assert (graph.self_loops_dropped, graph.task, graph.features, graph.labels) == (1, "none", None, None)


def test_structure_refuses_a_matrix_that_is_not_square(tmp_path: Path) -> None:
    path = tmp_path / "web.npz"
    np.savez(path, indptr=np.array([0, 1]), indices=np.array([1]), shape=np.array([1, 3]))
    with pytest.raises(ValueError, match=r"web\.npz has shape 1 x 3"):
        structure_only.load("web", {path.name: path}, {})


def test_features_are_drawn_on_request(tmp_path: Path) -> None:
    path = tmp_path / "web.npz"
    np.savez(path, indptr=np.arange(1001), indices=np.roll(np.arange(1000), 1), shape=np.array([1000, 1000]))
    first, same, other = (
        structure_only.load("web", {path.name: path}, {"features": 7, "seed": seed}) for seed in (0, 0, 1)
    )
    assert first.features.shape == (1000, 7) and np.array_equal(first.features, same.features)
    assert not np.array_equal(first.features, other.features) and not np.array_equal(first.labels, other.labels)
    shares = [len(first.nodes_of(name)) / 1000 for name in ("train", "validation", "test")]
    assert shares == pytest.approx([0.6, 0.2, 0.2], abs=0.05)
    assert set(first.labels.tolist()) == {0, 1, 2, 3}
    with pytest.raises(ValueError, match="features=-1 is not allowed"):
        structure_only.load("web", {path.name: path}, {"features": -1})
