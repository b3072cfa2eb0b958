"""Features as compressed rows: built, indexed, saved, mapped and refused."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from datasets import features
from datasets.features import (
    SparseFeatures,
    dense_features,
    in_layout,
    layout_notes,
    root_mean_square,
    share_set,
    sparse_features,
)
from datasets.graph import Graph
from datasets.order import apply_order
from tests.graphs import awkward_graph


def few_set(seed, nodes, width, share=0.2):
    draw = np.random.default_rng(seed)
    dense = draw.normal(size=(nodes, width)).astype(np.float32)
    return np.where(draw.random((nodes, width)) < share, dense, np.float32(0))


@given(st.integers(0, 99), st.integers(0, 30), st.integers(0, 90))
def test_layouts_hold_the_same_numbers(seed, nodes, width):
    dense = few_set(seed, nodes, width)
    sparse = in_layout(dense, "sparse")
    assert isinstance(sparse, SparseFeatures)
    assert sparse.shape == dense.shape and sparse.size == dense.size
    assert np.array_equal(sparse.dense(), dense)
    assert share_set(sparse) == pytest.approx(share_set(dense))
    assert root_mean_square(sparse) == pytest.approx(root_mean_square(dense))
    rows = np.random.default_rng(seed).integers(0, max(nodes, 1), 12 if nodes else 0)
    assert np.array_equal(sparse[rows].dense(), dense[rows])
    assert np.array_equal(sparse[: nodes // 2].dense(), dense[: nodes // 2])
    for column in range(min(width, 3)):
        assert np.array_equal(sparse.column(column), dense[:, column])


def test_a_column_is_read_in_parts_and_without_the_rows_of_all_entries(monkeypatch):
    monkeypatch.setattr(features, "ENTRIES_AT_ONCE", 7)
    dense = few_set(1, 30, 20)
    sparse = in_layout(dense, "sparse")
    assert np.array_equal(sparse.column(3), dense[:, 3]) and "destinations" not in vars(sparse.csr)


@given(st.integers(0, 99), st.integers(1, 20), st.integers(1, 20), st.integers(0, 80))
def test_entries_in_any_order_are_sorted_and_repeated_ones_summed(seed, nodes, width, count):
    draw = np.random.default_rng(seed)
    rows, columns = draw.integers(0, nodes, count), draw.integers(0, width, count)
    values = draw.integers(1, 9, count).astype(np.float32)
    expected = np.zeros((nodes, width), dtype=np.float32)
    np.add.at(expected, (rows, columns), values)
    features = sparse_features(rows, columns, values, (nodes, width))
    assert np.array_equal(features.dense(), expected)
    assert features.csr.nnz == np.count_nonzero(expected)
    for row in range(nodes):
        own = features.csr.indices[features.csr.indptr[row] : features.csr.indptr[row + 1]]
        assert (own[1:] > own[:-1]).all()


@pytest.mark.parametrize(
    ("rows", "columns", "values", "message"),
    [
        ([0, 5], [0, 0], [1.0, 1.0], "entry 1 has row 5: allowed are 0 to 4"),
        ([0, 1], [0, -1], [1.0, 1.0], "entry 1 has column -1: allowed are 0 to 2"),
        ([0, 3], [0, 2], [1.0, np.nan], "row 3, column 2 is nan"),
        ([4], [1], [np.inf], "row 4, column 1 is inf"),
    ],
)
def test_bad_entries_are_named(rows, columns, values, message):
    with pytest.raises(ValueError, match=message):
        sparse_features(np.array(rows), np.array(columns), np.array(values, dtype=np.float32), (5, 3))


@pytest.mark.parametrize(
    ("width", "share", "layout"), [(64, 0.05, "sparse"), (63, 0.05, "dense"), (64, 0.15, "dense"), (0, 0.0, "dense")]
)
def test_auto_is_sparse_for_wide_rows_of_few_values(width, share, layout):
    features = in_layout(few_set(0, 200, width, share), "auto")
    assert isinstance(features, SparseFeatures) == (layout == "sparse")
    assert isinstance(in_layout(in_layout(few_set(0, 9, 5), "sparse"), "dense"), np.ndarray)


def test_a_layout_that_was_asked_for_though_the_other_is_better_is_noted():
    few, many = few_set(0, 200, 64, 0.05), few_set(0, 200, 64, 0.35)
    assert layout_notes(few, "auto") == layout_notes(few, "sparse") == layout_notes(many, "dense") == ()
    assert "% of them are set" in layout_notes(many, "sparse")[0] and "dense ones" in layout_notes(many, "sparse")[0]
    assert "sparse ones" in layout_notes(few, "dense")[0]


def test_an_unknown_layout_is_refused():
    with pytest.raises(ValueError, match="did you mean 'sparse'"):
        in_layout(few_set(0, 3, 3), "sparce")


def test_nothing_turns_them_dense_unasked():
    features = in_layout(few_set(0, 3, 3), "sparse")
    with pytest.raises(TypeError, match=r"dataset\.options\.features=dense"):
        np.asarray(features)
    assert dense_features(features, "a test").shape == (3, 3)


def test_what_needs_dense_features_and_lacks_the_memory_says_so():
    huge = sparse_features(np.zeros(1, int), np.zeros(1, int), np.ones(1, np.float32), (1 << 22, 1 << 30))
    with pytest.raises(MemoryError, match=r"backend x needs dense features of 16777216\.0 GiB"):
        dense_features(huge, "backend x")


def test_graphs_save_map_order_and_cut_them(tmp_path):
    graph = awkward_graph(1)
    dense = few_set(2, graph.nodes, 90)
    sparse = replace(graph, features=in_layout(dense, "sparse"))
    sparse.save(tmp_path)
    mapped = Graph.load(tmp_path)
    assert isinstance(mapped.features, SparseFeatures) and mapped.width == 90
    assert isinstance(mapped.features.values, np.memmap)
    assert np.array_equal(mapped.features.dense(), dense)
    assert mapped.nbytes == sparse.nbytes < replace(graph, features=dense).nbytes
    order = np.random.default_rng(0).permutation(graph.nodes)
    ordered = apply_order(mapped, order).features
    assert isinstance(ordered, SparseFeatures) and np.array_equal(ordered.dense(), dense[order])
    part = mapped.subgraph(np.array([4, 1, 1])).features
    assert isinstance(part, SparseFeatures) and np.array_equal(part.dense(), dense[[4, 1, 1]])
