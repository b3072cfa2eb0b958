"""Files of chunked graphs: types of text, names that look alike, metadata and headers of another shape."""

import json
import re
import tracemalloc
from dataclasses import replace

import numpy as np
import pyarrow
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from pyarrow import parquet

from backends.distpart import typed_graph
from backends.distpart.commandline import main
from backends.distpart.files.chunked import FORMATS, read_chunked, write_chunked
from backends.distpart.files.columns import mapped
from backends.distpart.partition_graph import partition_graph
from backends.distpart.typed_graph import GraphError
from backends.distpart.verify import verify
from backends.kernels.extension import extension
from datasets.features import sparse_features
from datasets.partition.dgl_format import TensorRows, read_tensors, write_tensors
from datasets.schema import Relation, Schema
from tests.backends.distpart.graphs import homogeneous, stored_graph

pytestmark = pytest.mark.skipif(extension is None, reason="the kernels are not built")
KIND = "_N"


def run(*arguments):
    return main([str(argument) for argument in arguments])


def chunks_with(folder, arrays, **forms):
    graph = homogeneous(nodes=len(next(iter(arrays.values()))))
    graph.node_data[KIND] = arrays
    write_chunked(graph, folder, 2, **forms)
    return folder


def change_metadata(folder, change):
    path = folder / "metadata.json"
    facts = json.loads(path.read_text())
    change(facts)
    path.write_text(json.dumps(facts))


@pytest.mark.parametrize("form", ["csv", "parquet"])
@pytest.mark.parametrize("dtype", ["bool", "float32", "float16", "float64", ">f4", "int64", "int8"])
def test_attributes_keep_their_type_in_any_format(form, dtype, tmp_path):
    values = np.zeros(600_000, dtype)
    values[-1] = 1 if values.dtype.kind in "bi" else 0.0526
    chunks_with(tmp_path / "chunks", {"feat": values}, form=form)
    feat = read_chunked(tmp_path / "chunks", tmp_path / "work").node_data[KIND]["feat"]
    assert feat.dtype == (np.uint8 if dtype == "bool" else values.dtype.newbyteorder("="))
    np.testing.assert_array_equal(feat[:], values)


@pytest.mark.parametrize("form", ["csv", "parquet"])
def test_rows_keep_their_shape_in_any_format(form, tmp_path):
    values = {"cube": np.arange(24.0).reshape(4, 2, 3), "column": np.arange(4).reshape(4, 1), "plain": np.arange(4)}
    chunks_with(tmp_path / "chunks", values, form=form)
    data = read_chunked(tmp_path / "chunks", tmp_path / "work").node_data[KIND]
    for name, array in values.items():
        np.testing.assert_array_equal(data[name][:], array, strict=True)


def test_a_shape_that_the_text_has_not_is_refused(tmp_path):
    folder = chunks_with(tmp_path / "chunks", {"x": np.arange(8.0).reshape(4, 2)}, form="csv")
    for shape, message in (([3], r"x-0\.txt has 2 numbers in a row, its shape is \[3\]"), ("3", "the shape '3'")):
        change_metadata(folder, put("node_data", KIND, "x", "shape", shape))
        with pytest.raises(GraphError, match=message):
            read_chunked(folder, tmp_path / "work")


@pytest.mark.parametrize(
    ("first", "second", "dtype"), [("1\n2\n", "0.5\n1.5\n", "float64"), ("1\n2\n", "3\n4\n", "int64")], ids=str
)
def test_text_without_a_type_has_one_for_all_chunks(first, second, dtype, tmp_path):
    folder = chunks_with(tmp_path / "chunks", {"weight": np.zeros(4)}, form="csv")
    change_metadata(folder, lambda facts: facts["node_data"][KIND]["weight"].pop("dtype", None))
    for number, text in enumerate((first, second)):
        (folder / f"node_data/{KIND}/weight-{number}.txt").write_text(text)
    weight = read_chunked(folder, tmp_path / "work").node_data[KIND]["weight"]
    assert weight.dtype == dtype
    np.testing.assert_array_equal(weight[:].ravel(), np.array((first + second).split(), dtype))


def test_attributes_whose_names_look_alike_keep_their_own_values(tmp_path):
    folder = chunks_with(tmp_path / "chunks", {"x": np.arange(8.0), "y": -np.arange(8.0)}, form="csv")

    def rename(facts):
        data = facts["node_data"][KIND]
        data["x/y"], data["x-y"] = data.pop("x"), data.pop("y")

    change_metadata(folder, rename)
    data = read_chunked(folder, tmp_path / "work").node_data[KIND]
    np.testing.assert_array_equal(data["x/y"][:].ravel(), np.arange(8))
    np.testing.assert_array_equal(data["x-y"][:].ravel(), -np.arange(8))


def test_relations_whose_names_look_alike_keep_their_own_edges(tmp_path):
    schema = Schema(("a", "v", "v1", "none"), (Relation("a", "r", "v"), Relation("a", "r", "v1")))
    graph = stored_graph(schema=schema, edges=110)
    write_chunked(graph, tmp_path / "chunks", 11)
    chunked = read_chunked(tmp_path / "chunks", tmp_path / "work")
    for relation in schema.relations:
        np.testing.assert_array_equal(chunked.edges[relation].read(0, 110), graph.edges[relation].read(0, 110))


@pytest.mark.parametrize("form", FORMATS)
def test_files_of_several_pieces_are_read_back(form, tmp_path, monkeypatch):
    monkeypatch.setattr(typed_graph, "MOST_ROW_BYTES", 64)
    values = np.arange(100.0).reshape(50, 2)
    chunks_with(tmp_path / "chunks", {"feat": values}, form=form, edge_form=form)
    chunked = read_chunked(tmp_path / "chunks", tmp_path / "work")
    np.testing.assert_array_equal(chunked.node_data[KIND]["feat"][:], values)
    ((relation, edges),) = homogeneous(nodes=50).edges.items()
    np.testing.assert_array_equal(chunked.edges[relation].read(0, edges.count), edges.read(0, edges.count))


def test_wide_rows_are_written_and_compared_a_piece_at_a_time(tmp_path, monkeypatch):
    rows = np.arange(1000)
    features = sparse_features(rows, rows * 4, np.ones(1000), (1000, 5000))
    graph = replace(homogeneous(nodes=1000), node_data={KIND: {"feat": features}})
    partition_graph(graph, "toy", 1, tmp_path / "out", part_method="random")
    monkeypatch.setattr(typed_graph, "MOST_ROW_BYTES", 1 << 20)
    tracemalloc.start()
    write_chunked(graph, tmp_path / "chunks", 1)
    verify(graph, tmp_path / "out" / "toy.json")
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 8 << 20  # all rows take 20 MB


@pytest.mark.parametrize("form", FORMATS)
def test_numbers_that_are_not_finite_are_numbers(form, tmp_path):
    values = np.arange(80, dtype=np.float32).reshape(40, 2)
    values[2, 1], values[3, 0] = np.nan, np.inf  # as labels of nodes that have none
    chunks_with(tmp_path / "chunks", {"label": values}, form=form)
    graph = read_chunked(tmp_path / "chunks", tmp_path / "work")
    np.testing.assert_array_equal(graph.node_data[KIND]["label"][:], values)
    partition_graph(graph, "toy", 2, tmp_path / "out", part_method="random")
    assert verify(graph, tmp_path / "out" / "toy.json")["nodes"] == 40


def put(*keys):
    *path, last, value = keys

    def change(facts):
        for key in path:
            facts = facts[key]
        facts[last] = value

    return change


def test_text_without_a_delimiter_has_that_of_dgls_tools(tmp_path):
    values = np.arange(8.0).reshape(4, 2)
    folder = chunks_with(tmp_path / "chunks", {"x": values}, form="csv")
    edges = read_chunked(folder, tmp_path / "before").edges
    for path in folder.glob(f"node_data/{KIND}/x-*.txt"):
        path.write_text(path.read_text().replace(" ", ","))
    for place in (("node_data", KIND, "x"), ("edges", "_N:_E:_N")):
        change_metadata(folder, put(*place, "format", {"name": "csv"}))
    graph = read_chunked(folder, tmp_path / "work")
    np.testing.assert_array_equal(graph.node_data[KIND]["x"][:], values)
    for relation, ends in graph.edges.items():
        np.testing.assert_array_equal(ends.read(0, ends.count), edges[relation].read(0, ends.count))


def parquet_of(folder, values, table_of):
    """Chunks of ``values`` whose two Parquet files ``table_of`` makes of half of them; the JSON says no shape."""
    chunks_with(folder, {"x": values}, form="parquet")
    change_metadata(folder, lambda facts: facts["node_data"][KIND]["x"].pop("shape"))
    for number, rows in enumerate(np.split(values, 2)):
        path = folder / f"node_data/{KIND}/x-{number}.parquet"
        parquet.write_table(table_of(parquet.read_table(path), rows), path)


@pytest.mark.parametrize("shape", [(4,), (4, 1), (4, 5), (4, 2, 3)], ids=str)
def test_parquet_has_the_shape_that_dgls_tools_write_into_it(shape, tmp_path):
    values = np.arange(np.prod(shape), dtype=np.float64).reshape(shape)
    parquet_of(
        tmp_path / "chunks", values, lambda table, rows: table.replace_schema_metadata({"shape": str(rows.shape)})
    )
    stored = read_chunked(tmp_path / "chunks", tmp_path / "work").node_data[KIND]["x"]
    np.testing.assert_array_equal(stored[:], values, strict=True)


@pytest.mark.parametrize("shape", ["(2", "2", "()", "(2, 'x')", "(2, -1)", "__import__('os')"])
def test_a_shape_in_parquet_that_is_none_is_refused(shape, tmp_path):
    values = np.arange(8.0).reshape(4, 2)
    parquet_of(tmp_path / "chunks", values, lambda table, _: table.replace_schema_metadata({"shape": shape}))
    with pytest.raises(GraphError, match=r"x-0\.parquet says shape=.*: the sizes of all its rows are needed"):
        read_chunked(tmp_path / "chunks", tmp_path / "work")


def lists_of(rows, length=-1):
    return pyarrow.table({"features": pyarrow.array(rows, pyarrow.list_(pyarrow.float64(), length))})


@pytest.mark.parametrize("length", [2, -1], ids=["of one length", "of any length"])
def test_a_column_of_lists_is_rows_of_numbers(length, tmp_path, monkeypatch):
    monkeypatch.setattr(typed_graph, "MOST_ROW_BYTES", 8 * 2 * 3)  # batches of three rows
    values = np.arange(40.0).reshape(20, 2)
    parquet_of(tmp_path / "chunks", values, lambda _, rows: lists_of(rows.tolist(), length))
    stored = read_chunked(tmp_path / "chunks", tmp_path / "work").node_data[KIND]["x"]
    np.testing.assert_array_equal(stored[:], values, strict=True)


@pytest.mark.parametrize("rows_of_a_batch", [1, 4])
@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([[1.0, 2.0], [3.0, 4.0], [5.0], [6.0, 7.0]], "row 2 has 1 numbers"),
        ([[1.0, 2.0], [3.0, 4.0], [5.0, None], [6.0, 7.0]], "row 2 has nothing in column 1"),
        ([[1.0, 2.0], [3.0, 4.0], None, [6.0, 7.0]], "row 2 has 0 numbers"),
    ],
    ids=["too short", "nothing in a list", "no list"],
)
def test_lists_that_are_no_rows_are_refused(rows, message, rows_of_a_batch, tmp_path, monkeypatch):
    monkeypatch.setattr(typed_graph, "MOST_ROW_BYTES", 16 * rows_of_a_batch)
    parquet_of(tmp_path / "chunks", np.zeros((8, 2)), lambda *_: lists_of(rows))
    with pytest.raises(GraphError, match=rf"x-0\.parquet: {message}"):
        read_chunked(tmp_path / "chunks", tmp_path / "work")


def test_wide_rows_of_parquet_are_read_a_piece_at_a_time(tmp_path, monkeypatch):
    values = np.zeros((4000, 100))
    parquet_of(tmp_path / "chunks", values, lambda table, _: table)
    monkeypatch.setattr(typed_graph, "MOST_ROW_BYTES", 1 << 17)
    tracemalloc.start()
    graph = read_chunked(tmp_path / "chunks", tmp_path / "work")
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert graph.node_data[KIND]["x"].shape == values.shape
    assert peak < 1 << 20  # the rows of a file take 1.6 MB


FEAT = ("node_data", "paper", "feat")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (put("node_data", None), "node_data is None: an object"),
        (put("node_data", "paper", [1]), r"node_data of paper is \[1\]: an object"),
        (put("edges", []), r"edges is \[\]: an object"),
        (put("node_type", None), "node_type is None: a list of names"),
        (put("edge_type", [["a", "b", "c"]]), "edge_type is .*: a list of names"),
        (put("num_nodes_per_chunk", 3), "num_nodes_per_chunk is 3: a list"),
        (put(*FEAT, "format", "numpy"), "format of paper-feat is 'numpy': an object"),
        (put(*FEAT, "format", None), "format of paper-feat is None: an object"),
        (put(*FEAT, "format", {"name": "csv", "delimiter": 3}), "the delimiter 3: one character"),
        (put(*FEAT, "format", {"name": ["csv"]}), r"name of paper-feat is \['csv'\]: a text"),
        (put(*FEAT, "data", [3]), r"data of paper-feat is \[3\]: a list of names"),
    ],
    ids=lambda value: value if isinstance(value, str) else "metadata",  # a function's would be its address
)
def test_metadata_of_another_shape_is_refused_by_its_key(change, message, tmp_path, capsys):
    write_chunked(stored_graph(), tmp_path / "chunks", 2)
    change_metadata(tmp_path / "chunks", change)
    assert run("assign", tmp_path / "chunks", "-p", 2, "-o", tmp_path / "out", "--method", "random") == 2
    assert re.search(message, capsys.readouterr().err)


def test_a_graph_without_edge_types_is_refused(tmp_path, capsys):
    write_chunked(homogeneous(), tmp_path / "chunks", 1)
    nothing = {"edge_type": [], "num_edges_per_chunk": [], "num_edges_per_type": [], "edges": {}, "edge_data": {}}
    change_metadata(tmp_path / "chunks", lambda facts: facts.update(nothing))
    assert run("partition", tmp_path / "chunks", "-p", 2, "-o", tmp_path / "out", "--method", "random") == 2
    assert "edge_type names nothing" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


@settings(deadline=None, max_examples=200, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(place=st.integers(0, 127), value=st.one_of(st.sampled_from(list(b"'(){}[,9#-")), st.integers(0, 255)))
@example(place=21, value=ord(","))  # a type that numpy parses as Python
def test_a_damaged_header_of_numpy_is_refused_and_nothing_else(place, value, tmp_path):
    path = tmp_path / "a.npy"
    np.save(path, np.arange(12).reshape(3, 4))
    content = bytearray(path.read_bytes())
    content[place] = value
    path.write_bytes(content)
    try:
        mapped(path, "a.npy")
    except GraphError as error:
        assert "a.npy" in str(error)


def test_numbers_of_another_byte_order_are_written_as_dgl_reads_them(tmp_path):
    values = np.arange(4).astype(">f4")
    write_tensors(tmp_path / "t.dgl", {"x": TensorRows.of(values)})
    np.testing.assert_array_equal(read_tensors(tmp_path / "t.dgl")["x"], values)
