"""The PPI loaders on tiny files of the published layout."""

from pathlib import Path

import numpy as np
import pytest

from datasets.published import ppi
from tests.data import layouts
from tests.data.layouts import edges_of


@pytest.mark.parametrize("both_directions", [False, True])
def test_ppi_is_one_block_diagonal_graph(tmp_path: Path, both_directions: bool) -> None:
    graph = ppi.load("ppi", layouts.write_ppi(tmp_path, both_directions), {})
    once = [(0, 1), (1, 2), (3, 4), (5, 7), (8, 9)]
    assert edges_of(graph) == sorted(once + [(b, a) for a, b in once])
    assert graph.self_loops_dropped == 2
    assert graph.graph_ids is not None
    assert graph.graph_ids.tolist() == [1, 1, 1, 2, 2, 21, 21, 21, 23, 23, 24, 24]
    assert [len(graph.nodes_of(part)) for part in ("train", "validation", "test")] == [5, 3, 4]
    assert graph.training_view().nodes == 5
    assert (graph.task, graph.classes, graph.width, graph.inductive) == ("multilabel", 3, 2, True)
    assert graph.features is not None
    assert graph.features[:, 0].tolist() == [0] * 5 + [1] * 3 + [2] * 4


def test_ppi_refuses_a_graph_of_another_size(tmp_path: Path) -> None:
    files = layouts.write_ppi(tmp_path)
    np.save(files["valid_feats.npy"], np.zeros((2, 2)))
    with pytest.raises(ValueError, match=r"valid_graph\.json has 3 nodes but .* 2 rows"):
        ppi.load("ppi", files, {})


def test_recovered_ppi_fills_features_and_keeps_missing_labels(tmp_path: Path) -> None:
    graph = ppi.load_recovered("ppi_recovered", layouts.write_recovered(tmp_path), {})
    assert graph.features is not None
    assert graph.labels is not None
    assert graph.features[1].tolist() == [0, 0]
    assert graph.labels[2].tolist() == [-1, -1, -1]
    assert edges_of(graph) == [(0, 1), (1, 0), (2, 3), (3, 2)]
    assert sorted(graph.csr.ids.tolist()) == [0, 2, 3, 5]
    assert graph.self_loops_dropped == 1
    assert graph.nodes_of("test").tolist() == [3]
    assert "1 nodes without features" in graph.notes[0]
