"""The loader of Amazon and coauthor graphs on tiny files in both of its layouts."""

from pathlib import Path

import numpy as np

from datasets.published import attributed
from tests.data import layouts
from tests.data.layouts import edges_of


def test_both_attributed_layouts_give_the_same_graph(tmp_path: Path) -> None:
    first = attributed.load("a", layouts.write_gnn_benchmark(tmp_path / "original.npz"), {})
    second = attributed.load("a", layouts.write_edge_index(tmp_path / "other.npz"), {})
    assert edges_of(first) == edges_of(second)
    assert first.csr.nnz == 2 * 180
    assert (first.self_loops_dropped, second.self_loops_dropped) == (1, 0)
    for name in ("features", "labels", "split"):
        np.testing.assert_array_equal(getattr(first, name), getattr(second, name))
    assert first.features is not None
    assert np.unique(first.features).tolist() == [0, 1]


def test_attributed_split_is_seeded_per_class(tmp_path: Path) -> None:
    files = layouts.write_gnn_benchmark(tmp_path / "original.npz")
    graphs = [attributed.load("a", files, {"split_seed": seed}) for seed in (0, 0, 1)]
    assert graphs[0].labels is not None
    for graph in graphs:
        for part, size in (("train", 20), ("validation", 30), ("test", 10)):
            assert np.bincount(graphs[0].labels[graph.nodes_of(part)]).tolist() == [size] * 3
    np.testing.assert_array_equal(graphs[0].split, graphs[1].split)
    assert (graphs[0].split != graphs[2].split).any()
