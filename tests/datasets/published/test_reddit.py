"""The Reddit loader on tiny files of the published layout."""

from pathlib import Path

import numpy as np
import pytest
from scipy.sparse import csr_matrix, save_npz

from datasets.published import reddit
from tests.data import layouts
from tests.data.layouts import edges_of


def test_reddit(tmp_path: Path) -> None:
    graph = reddit.load("reddit", layouts.write_reddit(tmp_path), {})
    assert edges_of(graph) == [(0, 1), (1, 0), (1, 3), (3, 1)]
    assert graph.self_loops_dropped == 1
    assert [graph.nodes_of(part).tolist() for part in ("train", "validation", "test")] == [[0, 3], [1], [2]]
    assert (graph.classes, graph.width) == (3, 2)


def test_reddit_refuses_another_sparse_format(tmp_path: Path) -> None:
    files = layouts.write_reddit(tmp_path)
    save_npz(files["reddit_graph.npz"], csr_matrix(np.eye(4)))
    with pytest.raises(ValueError, match=r"reddit_graph\.npz.*COO"):
        reddit.load("reddit", files, {})
