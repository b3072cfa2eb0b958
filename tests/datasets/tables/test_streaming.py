"""User tables streamed to a graph on disk: equal to the loader in memory for any number of buckets and rows at once."""

import resource
import tracemalloc
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyarrow import csv, parquet

from datasets.graph import Graph
from datasets.tables import csv_types, edge_stream, reading
from datasets.tables.node_stream import NAMES
from datasets.tables.options import TableOptions
from datasets.tables.out_of_core import Buckets
from datasets.tables.streaming import MEMORY, stream_tables, tables_sha256, with_named_features
from datasets.tables.table import TableError
from tests.datasets.tables.test_loader import CASES, EDGES, NODES, Columns, load, tables, write

ARRAYS = ("features", "labels", "split", "node_ids", "node_types", "edge_weights", "edge_types", "edge_features")


def streamed(
    folder: Path, nodes: Columns, edges: Columns, ending="parquet", buckets=3, labels=None, memory=MEMORY, **options
) -> Graph:
    paths = [write(folder / f"{name}.{ending}", columns) for name, columns in (("nodes", nodes), ("edges", edges))]
    label_table = None if labels is None else write(folder / f"labels.{ending}", labels)
    return stream_tables(TableOptions(*paths, **options), folder / "graph", label_table, memory, buckets)


@settings(max_examples=40, deadline=None)
@given(
    tables(),
    st.sampled_from(["parquet", "csv"]),
    st.booleans(),
    st.integers(1, 5),
    st.integers(1, 9),
    st.sampled_from([1, MEMORY]),
)
def test_streaming_equals_the_loader(tmp_path_factory, columns, ending, both, buckets, rows, memory) -> None:
    nodes, edges = columns
    folder = tmp_path_factory.mktemp("tables")
    options = {"undirected": both, "edge_features": ["f"]}
    whole = load(folder, nodes, edges, ending, **options)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(reading, "ROWS_AT_ONCE", rows)
        patch.setattr(edge_stream, "PIECE", rows)
        graph = streamed(folder, nodes, edges, ending, buckets, memory=memory, **options)
    for name in ARRAYS:
        actual, expected = getattr(graph, name), getattr(whole, name)
        assert (actual is None) == (expected is None), name
        assert expected is None or np.array_equal(actual, expected), name
    assert isinstance(graph.csr.indices, np.memmap)
    for name in ("indptr", "indices", "ids"):
        assert np.array_equal(getattr(graph.csr, name), getattr(whole.csr, name)), name
    for name in ("classes", "task", "self_loops_dropped"):
        assert getattr(graph, name) == getattr(whole, name)
    left = {path.stem for path in (folder / "graph").iterdir()}
    assert left <= {"graph", "indptr", "indices", "edge_ids", "names", *ARRAYS}
    if "names" in left:
        assert parquet.read_table(folder / "graph" / NAMES).column("name").to_pylist() == nodes["id"]


@pytest.mark.parametrize(("nodes", "edges", "options", "message", "ending"), CASES)
def test_mistakes_are_named_as_the_loader_names_them(
    tmp_path: Path, monkeypatch, nodes: Columns, edges: Columns, options: dict[str, Any], message: str, ending: str
) -> None:
    monkeypatch.setattr(reading, "ROWS_AT_ONCE", 2)
    with pytest.raises(TableError, match=message):
        streamed(tmp_path, nodes, edges, ending, **options)


def test_a_node_table_without_rows_is_named(tmp_path: Path) -> None:
    with pytest.raises(TableError, match=r"nodes\.csv: the node table has no rows: it needs at least one"):
        streamed(tmp_path, {column: [] for column in NODES}, EDGES, "csv")


@pytest.mark.parametrize("ids", [[10, 20, 30], ["a", "b", "c"]], ids=["integers", "strings"])
@pytest.mark.parametrize("ending", ["parquet", "csv"])
@pytest.mark.parametrize("read", [load, streamed], ids=["in memory", "streamed"])
def test_an_edge_table_of_a_header_alone_is_a_graph_without_edges(tmp_path: Path, read, ending: str, ids) -> None:
    edges: Columns = {"source": [], "target": [], "weight": [], "type": [], "f": []}
    graph = read(tmp_path, NODES | {"id": ids}, edges, ending, edge_features=["f"], undirected=True)
    assert (graph.nodes, graph.csr.nnz, graph.csr.indptr.tolist()) == (3, 0, [0, 0, 0, 0])
    assert graph.edge_weights.shape == graph.edge_types.shape == (0,) and graph.edge_features.shape == (0, 1)
    with pytest.raises(TableError, match=rf"edges\.{ending}: there is no column 'src', only source, target"):
        read(tmp_path, NODES | {"id": ids}, edges, ending, source="src")


def test_edges_without_rows_may_have_lists(tmp_path: Path) -> None:
    edges: Columns = {"source": [], "target": [], "f": pa.array([], pa.list_(pa.float32()))}
    assert streamed(tmp_path, NODES, edges, edge_features="f").csr.nnz == 0


def test_a_csv_column_has_one_type_from_its_first_row_to_its_last(tmp_path: Path) -> None:
    """Arrow's batches take the types of the first MiB, in which integers, or nothing, may stand for decimals."""
    rows = 1 << 17
    labelled, words = [None] * (rows - 1) + [1], [None] * (rows - 1) + ["train"]
    nodes = {"id": np.arange(rows), "a": [2] * (rows - 1) + [0.5], "label": labelled, "split": words}
    edges = {"source": np.zeros(rows, int), "target": np.arange(rows), "weight": [1] * (rows - 1) + [0.5]}
    columns = [{name: pa.array(map(str, column)) for name, column in table.items()} for table in (nodes, edges)]
    columns[0] |= {name: pa.array([word and str(word) for word in nodes[name]]) for name in ("label", "split")}
    for name, table in zip(("nodes", "edges"), columns, strict=True):
        write(tmp_path / f"{name}.csv", table)
        assert (tmp_path / f"{name}.csv").stat().st_size > csv_types.BLOCK
    graph = stream_tables(TableOptions(*(str(tmp_path / f"{name}.csv") for name in ("nodes", "edges"))), tmp_path / "g")
    assert graph.features[[0, -1], 0].tolist() == [2.0, 0.5] and graph.edge_weights[[0, -1]].tolist() == [1.0, 0.5]
    assert graph.labels[[0, -1]].tolist() == [-1, 1] and graph.split[[0, -1]].tolist() == [3, 0]


def test_passes_over_large_files_are_shown(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr(reading, "LARGE", 1 << 20)
    rows = 1 << 18
    columns = {"nodes": {"id": np.arange(rows)}, "edges": {"source": np.arange(rows), "target": np.zeros(rows, int)}}
    paths = [write(tmp_path / f"{name}.csv", columns[name]) for name in columns]
    steps: dict[str, list[tuple[int, int]]] = {}

    def progress(step: str, done: int, total: int) -> None:
        steps.setdefault(step, []).append((done, total))

    options = TableOptions(*paths, features=[])
    sha256 = tables_sha256(options, progress=progress)
    assert [*steps] == ["MiB hashed of table 1", "MiB hashed of table 2"]
    graph = stream_tables(options, tmp_path / "graph", progress=progress, sha256=sha256)
    for step in ("MiB of the node table, for its types", "MiB hashed of table 2"):
        assert steps[step] == sorted(steps[step]) and steps[step][-1][0] == steps[step][-1][1] > 0
    blocks = -(-(tmp_path / "edges.csv").stat().st_size // reading.BLOCK)
    assert len(steps["MiB hashed of table 2"]) == blocks  # once: the hash is known when the tables are read
    assert graph.sha256 == sha256 == tables_sha256(options)


def test_labels_come_from_a_table_of_their_own(tmp_path: Path) -> None:
    nodes = {name: values for name, values in NODES.items() if name != "label"}
    labels: Columns = {"id": [30, 10], "label": [2, 0], "split": ["test", "train"]}
    graph = streamed(tmp_path, nodes, EDGES, labels=labels)
    assert graph.labels is not None and graph.split is not None
    assert graph.labels.tolist() == [0, -1, 2] and graph.split.tolist() == [0, 3, 2] and graph.classes == 3
    for wrong, message in (
        ({"id": [10, 99]}, r"labels.parquet: row 2, column 'id': no node"),
        ({"id": ["a", "b"]}, "strings"),
        ({"id": [10, 10]}, r"labels.parquet: row 2, column 'id': this id appeared before"),
    ):
        (folder := tmp_path / str(len(list(tmp_path.iterdir())))).mkdir()
        with pytest.raises(TableError, match=message):
            streamed(folder, nodes, EDGES, labels=labels | wrong)


@pytest.mark.parametrize("ending", ["parquet", "csv"])
def test_two_columns_of_one_name_are_refused_where_they_are_read(tmp_path: Path, ending: str) -> None:
    table = pa.Table.from_arrays([pa.array([10, 20, 30]), *2 * [pa.array([1.0, 2.0, 3.0])]], names=["id", "f", "f"])
    (parquet.write_table if ending == "parquet" else csv.write_csv)(table, tmp_path / f"nodes.{ending}")
    paths = str(tmp_path / f"nodes.{ending}"), write(tmp_path / "edges.csv", EDGES)
    with pytest.raises(TableError, match=rf"nodes.{ending}: 2 columns are called 'f': give each a name of its own"):
        options = with_named_features(TableOptions(*paths), reading.read_columns(paths[0], "node"))
        stream_tables(options, tmp_path / "graph")
    assert stream_tables(TableOptions(*paths, features=[]), tmp_path / "other").nodes == 3


def test_rows_that_grow_wider_are_named(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr(reading, "ROWS_AT_ONCE", 1)
    nodes = {"id": [10, 20, 30], "x": [[1.0, 2.0], [1.0, 2.0], [1.0]]}
    with pytest.raises(TableError, match=r"nodes.parquet: row 3: .* features"):
        streamed(tmp_path, nodes, EDGES)


def test_edge_features_that_grow_wider_are_named(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr(reading, "ROWS_AT_ONCE", 2)
    edges = EDGES | {"f": [[1.0], [1.0], [1.0, 2.0], [1.0, 2.0]]}
    with pytest.raises(TableError, match=r"edges.parquet: row 3: .* edge_features"):
        streamed(tmp_path, NODES, edges, edge_features="f")


@pytest.mark.parametrize("place", ["nodes", "labels"])
@pytest.mark.parametrize("lists", [[None, [1, 0], [None, 1]], [[1, 0], None, [0, 1]], [[1, 0], [], None]], ids=str)
def test_lists_of_labels_may_be_empty_in_whole_batches(tmp_path: Path, monkeypatch, lists, place) -> None:
    monkeypatch.setattr(reading, "ROWS_AT_ONCE", 1)
    nodes: Columns = {"id": [10, 20, 30], "x": [1, 2, 3]}
    expected = load(tmp_path, nodes | {"label": lists}, EDGES).labels.tolist()
    table = {"id": nodes["id"], "label": pa.array(lists, pa.list_(pa.int64()))}
    of_nodes, own = (nodes | table, None) if place == "nodes" else (nodes, table)
    graph = streamed(tmp_path, of_nodes, EDGES, labels=own, split="0.8,0.1,0.1")
    assert graph.labels.tolist() == expected and (graph.task, graph.classes) == ("multilabel", 2)


@pytest.mark.parametrize("lists", [[[0, 1, 0], [1]], [[1], [0, 1, 0]]], ids=str)
def test_lists_of_labels_that_grow_wider_or_narrower_are_named(tmp_path: Path, monkeypatch, lists) -> None:
    monkeypatch.setattr(reading, "ROWS_AT_ONCE", 1)
    with pytest.raises(TableError, match=r"labels\.parquet: row 2: \(\d,\) values for labels, but \(\d,\) in the rows"):
        streamed(tmp_path, NODES, EDGES, labels={"id": [10, 20], "label": lists})


def test_labels_in_csv_whose_ids_look_like_numbers_meet_ids_that_are_text(tmp_path: Path) -> None:
    nodes: Columns = {"id": ["1", "2", "x9"], "a": [1.0, 2.0, 3.0]}
    labels: Columns = {"id": [2, 1], "label": [1, 0]}
    graph = streamed(tmp_path, nodes, {"source": [1], "target": [2]}, "csv", labels=labels)
    assert graph.labels is not None and graph.labels.tolist() == [0, 1, -1]


def test_a_label_that_comes_twice_is_named_across_pieces(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr(reading, "ROWS_AT_ONCE", 2)
    with pytest.raises(TableError, match=r"labels.parquet: row 3, column 'id': this id appeared before"):
        streamed(tmp_path, NODES, EDGES, labels={"id": [10, 20, 10], "label": [0, 1, 1]})


def test_labels_that_are_strings_are_refused(tmp_path: Path) -> None:
    with pytest.raises(TableError, match=r"column 'label' holds string: give classes as numbers"):
        streamed(tmp_path, NODES | {"label": ["a", "b", "a"]}, EDGES)


@pytest.mark.parametrize(
    "columns", [{"label": ["a", "b", "c"]}, {"label": [-2, 0, 1]}, {"split": ["holdout", "train", None]}], ids=str
)
def test_labels_and_splits_that_are_not_read_may_be_anything_and_are_no_features(tmp_path: Path, columns) -> None:
    nodes = {"id": [10, 20, 30], "x": [1.0, 2.0, 3.0]} | columns
    paths = [write(tmp_path / f"{name}.parquet", table) for name, table in (("nodes", nodes), ("edges", EDGES))]
    graph = stream_tables(TableOptions(*paths), tmp_path / "graph", labelled=False)
    assert graph.labels is None and graph.split is None and (graph.task, graph.classes) == ("none", 0)
    assert graph.features[:, 0].tolist() == [1, 2, 3] and graph.width == 1
    with pytest.raises(TableError, match=rf"nodes.parquet: .*column '{next(iter(columns))}'"):
        stream_tables(TableOptions(*paths), tmp_path / "other")


@pytest.mark.parametrize("kind", [pa.decimal128(10, 2), pa.decimal256(50, 2)], ids=str)
def test_decimals_are_numbers_in_every_role(tmp_path: Path, kind) -> None:
    def decimals(*numbers: str | None) -> Any:
        return pa.array([number and Decimal(number) for number in numbers], kind)

    lists = pa.ListArray.from_arrays([0, 1, 2, 3], decimals("1.25", "2", "3.5"))
    numbers = {"price": decimals("1.50", "-2.25", "0.10"), "code": decimals("1", "0", "1").dictionary_encode()}
    roles = {"label": decimals("1.00", "0", None), "type": decimals("2", "0", "1")}
    ends = EDGES | {name: decimals("0.50", "1", "3", "2.25") for name in ("weight", "f")}
    nodes: Columns = {"id": [10, 20, 30]} | numbers | {"x": lists} | roles
    for read in (load, streamed):
        graph = read(tmp_path, nodes, ends, edge_features=["f"])
        expected = [[1.5, 1, 1.25], [-2.25, 0, 2], [0.1, 1, 3.5]]
        assert np.array_equal(graph.features, np.array(expected, dtype=np.float32))
        assert graph.edge_weights.tolist() == graph.edge_features[:, 0].tolist() == [0.5, 1, 2.25]
        assert graph.labels.tolist() == [1, 0, -1] and graph.node_types.tolist() == [2, 0, 1]
    named = with_named_features(TableOptions(), reading.read_columns(str(tmp_path / "nodes.parquet"), "node"))
    assert named.features == ["price", "code", "x"]
    with pytest.raises(TableError, match=r"row 1, column 'price': a class is a whole number"):
        load(tmp_path, nodes, EDGES, label="price")


def peak_of_streaming(folder: Path, nodes: int, sources: Any, targets: Any, memory: int = 4 << 20) -> int:
    """Most bytes that are allocated while tables are streamed."""
    columns = {"nodes": {"id": np.arange(nodes), "a": np.zeros(nodes, dtype=np.float32)}}
    columns["edges"] = {"source": sources, "target": targets}
    folder.mkdir()
    for name in columns:
        parquet.write_table(pa.table(columns[name]), folder / f"{name}.parquet", row_group_size=1 << 14)
    tracemalloc.start()
    paths = (str(folder / f"{name}.parquet") for name in columns)
    stream_tables(TableOptions(*paths), folder / "graph", memory=memory)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return peak


def test_memory_does_not_grow_with_the_tables(tmp_path, monkeypatch):
    monkeypatch.setattr(reading, "ROWS_AT_ONCE", 1 << 12)
    peaks = []
    for rows in (1 << 18, 1 << 18, 1 << 20):  # the first run pays what is loaded once
        ends = np.random.default_rng(rows).integers(0, rows // 4, (2, rows))
        peaks.append(peak_of_streaming(tmp_path / f"{len(peaks)}", rows // 4, *ends))
    assert peaks[2] < 1.3 * peaks[1]


def test_memory_is_kept_where_edges_have_few_ends(tmp_path, monkeypatch):
    """Popular nodes may come first, and one of them may have all edges."""
    monkeypatch.setattr(reading, "ROWS_AT_ONCE", 1 << 12)
    nodes, rows, memory = 1 << 14, 1 << 17, 4 << 20
    evenly = np.random.default_rng(0).integers(0, nodes, (2, rows))
    few, one = evenly // 64, np.zeros(rows, dtype=np.int64)
    ends = ((evenly[0], few[1]), (evenly[0], one), (one, evenly[1]))
    peaks = [peak_of_streaming(tmp_path / f"{number}", nodes, *pair, memory) for number, pair in enumerate(ends)]
    assert max(peaks) < 1.5 * memory < 128 * rows / 2  # all edges at once take more


def test_ids_that_are_multiples_of_one_number_lie_in_all_buckets(tmp_path, monkeypatch):
    append, rows_of_buckets = Buckets.append, {}

    def counted(buckets, numbers, *columns):
        rows = rows_of_buckets.setdefault(buckets.paths[0].name, np.zeros(len(buckets.paths), dtype=np.int64))
        rows += np.bincount(numbers, minlength=len(rows))
        append(buckets, numbers, *columns)

    monkeypatch.setattr(Buckets, "append", counted)
    ids = 4096 * np.arange(4000)
    nodes = {"id": ids, "label": np.zeros(4000, dtype=np.int64)}
    streamed(tmp_path, nodes, {"source": ids, "target": ids[::-1]}, buckets=8)
    rows = np.stack([*rows_of_buckets.values()])
    assert rows.shape == (4, 8) and rows.max() < 2 * 4000 / 8


@pytest.mark.parametrize("files", [256, 1024])
def test_buckets_leave_room_for_the_other_files_of_the_process(tmp_path, files):
    """256 files are what macOS lets a process open, 1024 what Linux does."""
    paths = [write(tmp_path / f"{name}.parquet", columns) for name, columns in (("nodes", NODES), ("edges", EDGES))]
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (files, limits[1]))
    try:
        graph = stream_tables(TableOptions(*paths), tmp_path / "graph", memory=1)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)
    assert np.array_equal(graph.csr.indices, load(tmp_path, NODES, EDGES).csr.indices)


def test_wide_rows_are_read_within_the_memory(tmp_path):
    rows, width, memory, paths = 2000, 2000, 4 << 20, [str(tmp_path / f"{name}.parquet") for name in ("nodes", "edges")]
    lists = pa.FixedSizeListArray.from_arrays(pa.array(np.ones(rows * width, np.float32)), width)
    parquet.write_table(pa.table({"id": np.arange(rows), "x": lists}), paths[0])
    write(tmp_path / "edges.parquet", {"source": [0], "target": [1]})
    tracemalloc.start()
    stream_tables(TableOptions(*paths, layout="dense"), tmp_path / "graph", memory=memory)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 2 * memory < 4 * rows * width  # the features alone take more
