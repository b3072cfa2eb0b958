"""Sparse features of user tables: from lists of columns, from many numeric columns; streamed as loaded."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from datasets.features import SparseFeatures
from datasets.tables import reading, sparse_columns
from datasets.tables.table import TableError
from tests.datasets.tables.test_loader import load
from tests.datasets.tables.test_streaming import streamed

LISTS = {"feature_columns": "words", "feature_values": "counts", "width": 7}
EDGES = {"source": [1, 2], "target": [2, 3]}
NODES = {"id": [1, 2, 3], "words": [[4, 1], [], [6]], "counts": [[2.0, 3.0], [], [1.0]], "label": [0, 1, 0]}


def test_columns_below_0_are_refused(tmp_path):
    with pytest.raises(TableError, match=r"a column is a whole number from 0$"):
        load(tmp_path, NODES | {"words": [[-4, -1], [], [-6]]}, EDGES, feature_columns="words")


@st.composite
def rows_of_words(draw):
    words = draw(st.lists(st.lists(st.integers(0, 6), max_size=9), min_size=2, max_size=12))
    counts = [draw(st.lists(st.integers(1, 9), min_size=len(row), max_size=len(row))) for row in words]
    return {"id": list(range(len(words))), "words": words, "counts": [list(map(float, row)) for row in counts]}


def equal(first, second):
    assert isinstance(first, SparseFeatures) and isinstance(second, SparseFeatures)
    assert first.shape == second.shape
    for mine, other in zip(first.arrays, second.arrays, strict=True):
        assert mine.dtype == other.dtype and np.array_equal(mine, other)


@settings(max_examples=40, deadline=None)
@given(rows_of_words(), st.integers(1, 5), st.sampled_from(["sparse", "dense"]))
def test_lists_of_columns_are_summed_and_streamed_as_loaded(tmp_path_factory, nodes, rows, layout):
    folder, edges = tmp_path_factory.mktemp("tables"), {"source": [0], "target": [1]}
    expected = np.zeros((len(nodes["id"]), 7), dtype=np.float32)
    for row, (words, counts) in enumerate(zip(nodes["words"], nodes["counts"], strict=True)):
        np.add.at(expected[row], words, counts)
    whole = load(folder, nodes, edges, layout=layout, **LISTS).features
    if layout == "dense":
        assert np.array_equal(whole, expected)
        return
    assert np.array_equal(whole.dense(), expected)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(reading, "ROWS_AT_ONCE", rows)
        equal(streamed(folder, nodes, edges, layout=layout, **LISTS).features, whole)


@pytest.mark.parametrize(
    ("share", "layout", "sparse"), [(0.05, "auto", True), (0.2, "auto", False), (0.2, "sparse", True)]
)
def test_numeric_columns_are_stored_sparse_where_few_are_set(tmp_path, monkeypatch, share, layout, sparse):
    draw = np.random.default_rng(0)
    values = np.where(draw.random((60, 70)) < share, draw.normal(size=(60, 70)), 0).astype(np.float32)
    nodes = {"id": list(range(60))} | {f"c{column}": values[:, column].tolist() for column in range(70)}
    edges = {"source": [0, 5], "target": [1, 6]}
    monkeypatch.setattr(reading, "ROWS_AT_ONCE", 7)
    monkeypatch.setattr(sparse_columns, "ROWS_AT_ONCE", 11)
    whole, graph = load(tmp_path, nodes, edges, layout=layout), streamed(tmp_path, nodes, edges, layout=layout)
    assert isinstance(whole.features, SparseFeatures) == sparse
    if sparse:
        assert np.array_equal(whole.features.dense(), values)
        equal(graph.features, whole.features)
        assert not (tmp_path / "graph" / "features.npy").exists()
    else:
        assert np.array_equal(graph.features, values)


@pytest.mark.parametrize(
    ("change", "options", "message"),
    [
        ({"words": [[4, 7], [], [6]]}, LISTS, r"row 1, column 'words': a column is a whole number from 0 to 6"),
        ({"words": [[4, 1], [], [-6]]}, LISTS, r"row 3, column 'words'"),
        ({"counts": [[2.0, 3.0], [], [float("nan")]]}, LISTS, r"row 3, column 'counts': a number is NaN"),
        ({"counts": [[2.0, 3.0], [1.0], [1.0]]}, LISTS, r"row 2, column 'counts': as many values"),
        ({"words": [1, 2, 3]}, LISTS, r"'words' holds int64: lists of numbers are expected"),
    ],
)
def test_mistakes_are_named_by_file_row_and_column(tmp_path, change, options, message):
    for read in (load, streamed):
        with pytest.raises(TableError, match=message):
            read(tmp_path, NODES | change, EDGES, **options)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"layout": "spars"}, "did you mean 'sparse'"),
        ({"features": ["a"], "feature_columns": "words"}, "give one of them"),
        ({"feature_values": "counts"}, "need feature_columns"),
    ],
)
def test_options_that_contradict_each_other_are_refused(tmp_path, options, message):
    for number, read in enumerate((load, streamed)):
        folder = tmp_path / str(number)
        folder.mkdir()
        with pytest.raises(ValueError, match=message):
            read(folder, NODES, EDGES, **options)


def test_the_width_is_found_where_it_is_not_given(tmp_path):
    features = load(tmp_path, NODES, EDGES, feature_columns="words", layout="sparse").features
    assert features.dense().tolist() == [[0, 1, 0, 0, 1, 0, 0], [0] * 7, [0] * 6 + [1]]
    with pytest.raises(ValueError, match="give width"):
        streamed(tmp_path, NODES, EDGES, feature_columns="words")
