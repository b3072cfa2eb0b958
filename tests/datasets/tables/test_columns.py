"""Columns of tables as users have them: row numbers of pandas, words for missing labels, ids of every form."""

import tracemalloc
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet

from datasets.tables.loader import load
from datasets.tables.options import TableOptions
from datasets.tables.reading import read_columns
from datasets.tables.streaming import stream_tables, with_named_features
from datasets.tables.table import TableError

EDGES = "source,target\n0,1\n1,2\n"


def graph_of(folder: Path, nodes: str, edges: str = EDGES, **options: Any) -> Any:
    """The graph of two tables of CSV."""
    (folder / "nodes.csv").write_text(nodes)
    (folder / "edges.csv").write_text(edges)
    return load("tables", {}, {role: str(folder / f"{role}.csv") for role in ("nodes", "edges")} | options)


def streamed(folder: Path, nodes: str, edges: str = EDGES) -> Any:
    """The same graph, read in pieces."""
    graph_of(folder, nodes, edges)
    tables = TableOptions(*(str(folder / f"{role}.csv") for role in ("nodes", "edges")))
    (folder / "graph").mkdir()
    return stream_tables(with_named_features(tables, read_columns(tables.nodes, "node")), folder / "graph")


@pytest.mark.parametrize("name", ["", "Unnamed: 0", "__index_level_0__"])
def test_row_numbers_of_pandas_are_no_features_unless_they_are_named(tmp_path: Path, name: str) -> None:
    nodes = f"{name},id,x\n0,0,.5\n1,1,.25\n2,2,1.5\n"
    graph = graph_of(tmp_path, nodes)
    assert graph.features.tolist() == [[0.5], [0.25], [1.5]] == streamed(tmp_path, nodes).features.tolist()
    assert any(f"unless they are named: {name or chr(34) * 2}" in note for note in graph.notes)
    assert name == "" or graph_of(tmp_path, nodes, features=[name, "x"]).features.shape == (3, 2)


def test_another_label_and_split_are_no_features(tmp_path: Path) -> None:
    nodes = "id,x,label,split,y\n0,1,5,0,0\n1,2,6,1,1\n2,3,7,2,0\n"
    graph = graph_of(tmp_path, nodes, label="y", split="0.5,0.25,0.25")
    assert graph.features.tolist() == [[1], [2], [3]] and graph.labels.tolist() == [0, 1, 0]


def test_columns_without_numbers_are_no_features(tmp_path: Path) -> None:
    rows = {"id": [0, 1], "x": [1.0, 2.0], "tags": [["a"], ["b", "c"]], "empty": pa.nulls(2), "none": [[], []]}
    parquet.write_table(pa.table(rows), tmp_path / "nodes.parquet")
    (tmp_path / "edges.csv").write_text("source,target\n0,1\n")
    graph = load("tables", {}, {"nodes": str(tmp_path / "nodes.parquet"), "edges": str(tmp_path / "edges.csv")})
    assert graph.features.tolist() == [[1], [2]]
    assert any(note.endswith("unless they are named: tags, empty, none") for note in graph.notes)
    assert graph_of(tmp_path, "id,x,\n0,1,\n1,2,\n2,3,\n").features.shape == (3, 1), "a comma behind the header"


@pytest.mark.parametrize("word", ["NA", "NaN", "null", "None", "-1", ""])
def test_words_for_missing_labels_are_no_class_of_a_csv_file(tmp_path: Path, word: str) -> None:
    graph = graph_of(tmp_path, f"id,label\n0,dog\n1,{word}\n2,cat\n")
    assert (graph.labels.tolist(), graph.classes) == ([1, -1, 0], 2)
    assert "classes are words, numbered in this order: cat, dog" in graph.notes


def test_a_word_of_a_typed_file_is_a_class_as_it_stands(tmp_path: Path) -> None:
    parquet.write_table(pa.table({"id": [0, 1], "label": ["NA", "EU"]}), tmp_path / "nodes.parquet")
    (tmp_path / "edges.csv").write_text("source,target\n0,1\n")
    graph = load("tables", {}, {"nodes": str(tmp_path / "nodes.parquet"), "edges": str(tmp_path / "edges.csv")})
    assert (graph.labels.tolist(), graph.classes) == ([1, 0], 2)


@pytest.mark.parametrize(
    "ids",
    [
        ("18446744073709551615", "18446744073709551614", "12345678901234567890123"),
        ("2024-01-05", "2024-01-06", "2024-02-01"),
        ("12:30", "12:31", "00:01"),
        ("1.5", "2.5", "a"),
    ],
    ids=["unsigned and longer", "dates", "times", "mixed"],
)
def test_ids_that_are_neither_integers_nor_words_are_read_as_text(tmp_path: Path, ids: tuple[str, str, str]) -> None:
    nodes = "id,x\n" + "".join(f"{name},{place}\n" for place, name in enumerate(ids))
    edges = f"source,target\n{ids[0]},{ids[1]}\n{ids[1]},{ids[2]}\n"
    graph, in_pieces = graph_of(tmp_path, nodes, edges), streamed(tmp_path, nodes, edges)
    for read in (graph, in_pieces):
        assert read.csr.indices.tolist() == [0, 1] and read.csr.in_degrees.tolist() == [0, 1, 1]
        np.testing.assert_array_equal(np.asarray(read.features)[:, 0], [0, 1, 2])


def test_folders_and_packed_files_are_named_with_advice(tmp_path: Path) -> None:
    (tmp_path / "nodes.parquet").mkdir()
    for name, message in (("nodes.parquet", "is a folder: give one file"), ("nodes.csv.gz", "unpack it first")):
        with pytest.raises(TableError, match=message):
            load("tables", {}, {"nodes": str(tmp_path / name), "edges": str(tmp_path / "edges.csv")})


def test_a_header_that_is_not_utf_8_names_its_file(tmp_path: Path) -> None:
    paths = {role: str(tmp_path / f"{role}.csv") for role in ("nodes", "edges")}
    Path(paths["edges"]).write_text(EDGES)
    Path(paths["nodes"]).write_bytes("id,gr\u00f6\u00dfe\n0,1\n1,1\n2,1\n".encode("latin-1"))
    with pytest.raises(TableError, match=r"nodes.csv: .*UTF-?8"):
        load("tables", {}, paths)


def test_one_long_id_or_class_takes_the_memory_of_itself_alone(tmp_path: Path) -> None:
    rows, letters = 20_000, 10_000
    names = [*(f"n{row}" for row in range(rows - 1)), "n" * letters]
    nodes = {"id": names, "x": np.ones(rows), "label": [*["a"] * (rows - 1), "b" * letters]}
    parquet.write_table(pa.table(nodes), tmp_path / "nodes.parquet")
    parquet.write_table(pa.table({"source": names[:-1], "target": names[1:]}), tmp_path / "edges.parquet")
    paths = {role: str(tmp_path / f"{role}.parquet") for role in ("nodes", "edges")}
    tracemalloc.start()
    graph = load("tables", {}, paths)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert graph.labels.sum() == 1 and np.array_equal(graph.csr.indices, np.arange(rows - 1))
    assert peak < rows * letters, "an array of fixed width would hold 4 bytes for each of so many letters"


def test_a_column_is_named_by_a_number(tmp_path: Path) -> None:
    edges = "source,target,3\n0,1,0.5\n1,2,1.5\n"
    nodes = "id,a,3\n0,1,train\n1,2,test\n2,3,\n"
    graph = graph_of(tmp_path, nodes, edges, weight=3, split="3")
    assert graph.edge_weights.tolist() == [0.5, 1.5] and graph.split.tolist() == [0, 2, 3]


def test_words_that_are_no_classes_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from datasets.tables import columns

    monkeypatch.setattr(columns, "MOST_CLASSES", 2)
    with pytest.raises(
        TableError, match=r"3 different words in column 'label', at most 2 are classes: name the column"
    ):
        graph_of(tmp_path, "id,label\n0,a\n1,b\n2,c\n")
