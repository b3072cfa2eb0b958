"""User tables: a written graph comes back, and every mistake is named with file, column and row."""

import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar

import fsspec
import numpy as np
import pyarrow as pa
import pytest
from fsspec.implementations.memory import MemoryFileSystem
from hypothesis import given, settings
from hypothesis import strategies as st
from pyarrow import csv, parquet

from datasets.registry import load_dataset
from datasets.tables.columns import features_of
from datasets.tables.reading import read_batches
from datasets.tables.table import TableError, UserTable

Columns = dict[str, list[Any]]
NODES: Columns = {"id": [10, 20, 30], "a": [1.0, 2.0, 3.0], "b": [0, 1, 0], "label": [0, 1, None]}
EDGES: Columns = {"source": [10, 20, 30, 20], "target": [20, 30, 30, 30]}


def write(path: Path, columns: Columns) -> str:
    (parquet.write_table if path.suffix == ".parquet" else csv.write_csv)(pa.table(columns), path)
    return str(path)


def load(folder: Path, nodes: Columns, edges: Columns, ending: str = "parquet", **options: Any) -> Any:
    paths = {"nodes": write(folder / f"nodes.{ending}", nodes), "edges": write(folder / f"edges.{ending}", edges)}
    return load_dataset("tables", paths | options, folder)


@st.composite
def tables(draw: st.DrawFn) -> tuple[Columns, Columns]:
    ids = draw(st.lists(st.integers(-1000, 1000), min_size=1, max_size=12, unique=True))
    if draw(st.booleans()):
        ids = [f"node {number}" for number in ids]
    numbers = st.floats(-100, 100, width=32)
    nodes = {
        "id": ids,
        "x": [draw(numbers) for _ in ids],
        "y": [draw(numbers) for _ in ids],
        "label": [draw(st.sampled_from([None, 0, 1, 2])) for _ in ids],
        "split": [draw(st.sampled_from(["train", "validation", "val", "valid", "test", "none"])) for _ in ids],
        "type": [draw(st.integers(0, 5)) for _ in ids],
    }
    ends = draw(st.lists(st.tuples(st.sampled_from(ids), st.sampled_from(ids)), min_size=1, max_size=30))
    edges = {"source": [a for a, _ in ends], "target": [b for _, b in ends], "weight": [draw(numbers) for _ in ends]}
    return nodes, edges | {"type": [draw(st.integers(0, 5)) for _ in ends], "f": [draw(numbers) for _ in ends]}


@pytest.mark.parametrize("ending", ["parquet", "csv"])
def test_a_column_that_a_word_makes_text_is_no_feature_and_a_note_says_so(tmp_path: Path, ending: str) -> None:
    nodes = NODES | {"b": ["0", "one", "0"]}
    graph = load(tmp_path, nodes, EDGES, ending)
    assert graph.features.shape == (3, 1) and any(
        "no features unless they are named: b" in note for note in graph.notes
    )
    named = load(tmp_path, nodes, EDGES, ending, features=["a"])
    assert named.features.shape == (3, 1) and named.notes == ()


@settings(max_examples=60, deadline=None)
@given(both_tables=tables(), ending=st.sampled_from(["parquet", "csv"]), both=st.booleans())
def test_a_written_graph_comes_back(
    tmp_path_factory: pytest.TempPathFactory, both_tables: tuple[Columns, Columns], ending: str, both: bool
) -> None:
    nodes, edges = both_tables
    graph = load(tmp_path_factory.mktemp("tables"), nodes, edges, ending, undirected=both, edge_features=["f"])
    rows = len(edges["source"])
    position = {name: place for place, name in enumerate(nodes["id"])}
    expected = {}
    for row, (a, b, weight, kind, feature) in enumerate(zip(*edges.values(), strict=True)):
        known = np.float32(weight), kind, np.float32(feature)
        if a != b:
            expected[row] = (position[a], position[b], *known)
            if both:
                expected[row + rows] = (position[b], position[a], *known)
    of_edges = graph.edge_weights, graph.edge_types.tolist(), graph.edge_features[:, 0]
    read = zip(graph.csr.indices.tolist(), graph.csr.destinations.tolist(), *of_edges, strict=True)
    assert dict(zip(graph.csr.ids.tolist(), read, strict=True)) == expected
    assert graph.self_loops_dropped == sum(a == b for a, b in zip(edges["source"], edges["target"], strict=True))
    np.testing.assert_array_equal(graph.features, np.array([nodes["x"], nodes["y"]], dtype=np.float32).T)
    assert graph.labels.tolist() == [-1 if label is None else label for label in nodes["label"]]
    parts = {"train": 0, "validation": 1, "val": 1, "valid": 1, "test": 2, "none": 3}
    assert graph.split.tolist() == [parts[name] for name in nodes["split"]]
    assert graph.node_types.tolist() == nodes["type"] and graph.edge_features.shape[1] == 1
    if isinstance(nodes["id"][0], int):
        assert graph.node_ids.tolist() == nodes["id"]


def changed(table: Columns, column: str, row: int, value: Any) -> Columns:
    """A copy with one value replaced; row counts from 1."""
    return table | {column: [value if place == row - 1 else old for place, old in enumerate(table[column])]}


MISTAKES: list[tuple[Columns, Columns, dict[str, Any], str]] = [
    (changed(NODES, "id", 3, 10), EDGES, {}, r"nodes\..*: row 3: id .*10.* appeared before"),
    (changed(NODES, "id", 2, None), EDGES, {}, r"nodes\..*: row 2, column 'id': is empty"),
    (NODES, changed(EDGES, "target", 4, 31), {}, r"edges\..*: row 4, column 'target': no node has the id .*31"),
    (NODES, changed(EDGES, "source", 1, 5), {}, r"edges\..*: row 1, column 'source': no node has the id .*5"),
    (NODES, changed(EDGES, "source", 1, None), {}, r"edges\..*: row 1, column 'source': is empty"),
    (NODES | {"id": ["a", "", "c"]}, EDGES, {}, r"nodes\..*: row 2, column 'id': is empty"),
    (changed(NODES, "a", 2, float("nan")), EDGES, {}, r"nodes\..*: row 2, column 'a': a number is NaN"),
    (changed(NODES, "a", 3, None), EDGES, {}, r"nodes\..*: row 3, column 'a': a number is NaN"),
    (changed(NODES, "a", 1, float("inf")), EDGES, {}, r"nodes\..*: row 1, column 'a': a number is NaN"),
    (changed(NODES, "a", 1, 1e39), EDGES, {}, r"nodes\..*: row 1, column 'a': a number is .* too large for float32"),
    (NODES, EDGES | {"weight": [1.0, 1.0, None, 1.0]}, {}, r"edges\..*: row 3, column 'weight': a number is NaN"),
    (NODES, EDGES, {"width": 5}, r"nodes\..*: 2 features in a, b, but width=5"),
    (changed(NODES, "label", 2, -3), EDGES, {}, r"nodes\..*: row 2, column 'label': a class is a whole number"),
    (changed(NODES, "label", 2, 0.5), EDGES, {}, r"nodes\..*: row 2, column 'label': a class is a whole number"),
    (NODES, EDGES, {"label": ["b", "label", "a"]}, r"nodes\..*: row 2, column 'a': .* 0 to 1"),
    (NODES | {"split": ["train", "tset", "test"]}, EDGES, {}, r"nodes\..*: row 2, column 'split': split 'tset'"),
    (NODES, EDGES, {"weight": "w"}, r"edges\..*: there is no column 'w', only source, target"),
    (NODES, EDGES, {"edge_type": "t"}, r"edges\..*: there is no column 't', only source, target"),
    (NODES, EDGES, {"node_type": "t"}, r"nodes\..*: there is no column 't', only id, a, b, label"),
    (NODES, EDGES, {"source": "src"}, r"edges\..*: there is no column 'src', only source, target"),
    (NODES | {"c": ["x", "y", "z"]}, EDGES, {"features": ["c"]}, r"nodes\..*: column 'c' holds string"),
    (
        NODES | {"id": ["a", "b", "c"]},
        EDGES,
        {},
        r"edges\..*column 'source'(.* holds integers, but .* are strings|: no node has the id ('10'|of this row))",
    ),
    (NODES | {"label": [0, 1 << 20, 2]}, EDGES, {}, r"nodes\..*: row 2, column 'label': a class is .* 0 to 1048575"),
    (NODES, EDGES | {"type": [0, 1, -1, 2]}, {}, r"edges\..*: row 3, column 'type': a type is a whole number from 0"),
    (NODES | {"type": [0, 1.5, 2]}, EDGES, {}, r"nodes\..*: row 2, column 'type': a type is a whole number from 0"),
    (
        NODES | {"type": ["user", "item", "user"]},
        EDGES,
        {},
        r"nodes\..*: column 'type' holds string: .* --node-type \(dataset\.options\.node_type\) names another .* none",
    ),
    (
        NODES,
        EDGES | {"type": ["likes", "buys", "likes", "likes"]},
        {},
        r"edges\..*: column 'type' holds string: .* --edge-type \(dataset\.options\.edge_type\) names another .* none",
    ),
    (
        {"id": [10, 20, 30], "a": ["x", "y", "z"]},
        EDGES,
        {"width": 2},
        r"nodes\..*: no column of features, but width=2: name the columns",
    ),
    (NODES, EDGES, {"split": "0.5,0.4,0.3"}, r"split=0\.5,0\.4,0\.3 is not allowed: name a column, or give three"),
    (NODES, EDGES, {"edge_features": ["f"]}, r"edges\..*: there is no column 'f', only source, target"),
    (NODES, EDGES | {"f": [0, None, 1, 1]}, {"edge_features": ["f"]}, r"edges\..*: row 2, column 'f': a number is NaN"),
]


OF_TYPED_IDS = [
    (
        NODES | {"id": np.array([1, 2**63, 3], dtype=np.uint64)},
        EDGES,
        {},
        r"nodes\..*: (row 2, )?column 'id'.*(63 bits|ids are integers)",
    ),
    (NODES | {"id": [None] * 3}, EDGES, {}, r"nodes\..*: row 1, column 'id': is empty: every row needs an id"),
    (NODES | {"id": [0.5, 1.5, 2.5]}, EDGES, {}, r"nodes\..*: column 'id' holds double: ids are integers or strings"),
]
CASES = [(*case, ending) for case in MISTAKES for ending in ("parquet", "csv")]
CASES += [(*case, "parquet") for case in OF_TYPED_IDS]  # ids of a CSV file are text where they are no integers


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize(("nodes", "edges", "options", "message", "ending"), CASES)
def test_mistakes_are_named(
    tmp_path: Path, nodes: Columns, edges: Columns, options: dict[str, Any], message: str, ending: str
) -> None:
    with pytest.raises(TableError, match=message):
        load(tmp_path, nodes, edges, ending, **options)


@pytest.mark.parametrize("ending", ["parquet", "csv"])
def test_a_node_table_without_rows_is_named(tmp_path: Path, ending: str) -> None:
    with pytest.raises(TableError, match=rf"nodes\.{ending}: the nodes table has no rows: it needs at least one"):
        load(tmp_path, {column: [] for column in NODES}, EDGES, ending)


def test_files_that_are_not_tables_are_named(tmp_path: Path) -> None:
    edges = write(tmp_path / "edges.csv", EDGES)
    (tmp_path / "ragged.csv").write_text("id,a\n1,2\n3\n")
    (tmp_path / "nodes.parquet").write_text("no parquet")
    for path, message in (
        ("ragged.csv", r"ragged\.csv: .*#3"),
        ("nodes.parquet", r"nodes\.parquet: "),
        ("n.txt", "end with"),
    ):
        with pytest.raises(TableError, match=message):
            load_dataset("tables", {"nodes": str(tmp_path / path), "edges": edges}, tmp_path)
    with pytest.raises(TableError, match=r"absent\.csv does not exist"):
        load_dataset("tables", {"nodes": str(tmp_path / "absent.csv"), "edges": edges}, tmp_path)


def test_options_are_checked_before_any_file_is_opened(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="'node' is unknown: allowed are nodes, edges"):
        load_dataset("tables", {"node": "x"}, tmp_path)
    with pytest.raises(ValueError, match=r"path of the edges table: add \+dataset\.options\.edges=PATH"):
        load_dataset("tables", {"nodes": "x.csv"}, tmp_path)


def test_a_list_of_another_length_is_named(tmp_path: Path) -> None:
    nodes = {"id": [10, 20, 30], "x": [[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]]}
    assert load(tmp_path, nodes, EDGES).features.tolist() == nodes["x"]
    with pytest.raises(TableError, match=r"row 2, column 'x': 1 values, but 2 are expected"):
        load(tmp_path, changed(nodes, "x", 2, [3.0]), EDGES)
    with pytest.raises(TableError, match=r"row 1, column 'x': 2 values, but 3 are expected"):
        load(tmp_path, nodes, EDGES, width=3)
    with pytest.raises(TableError, match=r"row 3, column 'x': a number is NaN"):
        load(tmp_path, changed(nodes, "x", 3, [None, 1.0]), EDGES)
    with pytest.raises(TableError, match=r"row 1, column 'x': is empty: every row needs a list"):
        load(tmp_path, changed(nodes, "x", 1, None), EDGES)
    with pytest.raises(TableError, match=r"row 1, column 'x': 0 values, but 2 are expected"):
        load(tmp_path, changed(nodes, "x", 1, []), EDGES)


LABELS: list[tuple[Columns, dict[str, Any], str, int, list[Any]]] = [
    ({"label": ["b", None, "a"]}, {}, "multiclass", 2, [1, -1, 0]),
    ({"label": [[1, 0], [0, 0], [-1, -1]]}, {}, "multilabel", 2, [[1, 0], [0, 0], [-1, -1]]),
    ({"label": [[1, 0], None, [None, 1]]}, {}, "multilabel", 2, [[1, 0], [-1, -1], [-1, 1]]),
    ({"label": [None, [], [0, 1]]}, {}, "multilabel", 2, [[-1, -1], [-1, -1], [0, 1]]),
    ({"p": [1, 0, None], "q": [0, 0, 1]}, {"label": ["p", "q"]}, "multilabel", 2, [[1, 0], [0, 0], [-1, 1]]),
    ({"kind": [3, 1, 0]}, {"label": "kind"}, "multiclass", 4, [3, 1, 0]),
    ({}, {}, "none", 0, []),
]


@pytest.mark.parametrize(("columns", "options", "task", "classes", "expected"), LABELS)
def test_labels_have_three_forms(
    tmp_path: Path, columns: Columns, options: dict[str, Any], task: str, classes: int, expected: list[Any]
) -> None:
    graph = load(tmp_path, {"id": [10, 20, 30], "x": [1, 2, 3]} | columns, EDGES, **options)
    assert (graph.task, graph.classes) == (task, classes)
    assert ([] if graph.labels is None else graph.labels.tolist()) == expected
    assert graph.features.tolist() == [[1], [2], [3]]


@pytest.mark.parametrize("role", ["label", "split"])
def test_a_column_that_is_named_must_be_there(tmp_path: Path, role: str) -> None:
    with pytest.raises(TableError, match=r"nodes\..*: there is no column 'lable', only id, a, b, label"):
        load(tmp_path, NODES, EDGES, **{role: "lable"})
    edges = EDGES | {"weight": [0.5] * 4}
    assert load(tmp_path, NODES, edges, weight="none").edge_weights is None


@pytest.mark.parametrize("ending", ["parquet", "csv"])
def test_integers_beyond_the_floats_are_rounded_features_and_no_classes(tmp_path: Path, ending: str) -> None:
    nodes = {"id": [10, 20, 30], "t": [2**60 + 1, 1, 2]}
    assert load(tmp_path, nodes, EDGES, ending).features[:, 0].tolist() == [2.0**60, 1, 2]
    with pytest.raises(TableError, match=r"nodes\..*: row 1, column 't': a class is a whole number from 0"):
        load(tmp_path, nodes, EDGES, ending, label="t")


def test_an_fsspec_path_is_opened(tmp_path: Path) -> None:
    for role, columns in (("nodes", NODES), ("edges", EDGES)):
        write(tmp_path / f"{role}.parquet", columns)
        fsspec.filesystem("memory").pipe(f"/{role}.parquet", (tmp_path / f"{role}.parquet").read_bytes())
    graph = load_dataset("tables", {"nodes": "memory://nodes.parquet", "edges": "memory://edges.parquet"}, tmp_path)
    assert (graph.nodes, graph.csr.nnz) == (3, 3)


def hash_of(change: Callable[[], dict[str, Any]], folder: Path) -> str:
    folder.mkdir()
    return str(load(folder, **change()).sha256)


def test_the_hash_follows_contents_and_options_but_not_paths(tmp_path: Path) -> None:
    base = {"nodes": NODES, "edges": EDGES}
    variants: list[dict[str, Any]] = [
        base,
        base,
        base | {"edges": changed(EDGES, "target", 1, 30)},
        base | {"undirected": True},
        base | {"features": ["a"]},
    ]
    hashes = [hash_of(lambda variant=variant: variant, tmp_path / str(place)) for place, variant in enumerate(variants)]
    assert hashes[0] == hashes[1]
    assert len(set(hashes)) == 4


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda content: content[: len(content) // 2], "nodes.parquet: .*magic bytes"),
        (lambda content: content[:60] + bytes(len(content) - 400) + content[-340:], "nodes.parquet: .+"),
        (lambda content: b"", "nodes.parquet: .*size is 0"),
    ],
)
def test_a_damaged_file_is_named(tmp_path: Path, damage: Callable[[bytes], bytes], message: str) -> None:
    path = tmp_path / "nodes.parquet"
    parquet.write_table(pa.table({"id": np.arange(5000), "a": np.random.default_rng(0).normal(size=5000)}), path)
    path.write_bytes(damage(path.read_bytes()))
    options = {"nodes": str(path), "edges": write(tmp_path / "edges.parquet", EDGES)}
    with pytest.raises(TableError, match=message):
        load_dataset("tables", options, tmp_path)


def test_tables_are_read_from_an_archive(tmp_path: Path) -> None:
    write(tmp_path / "n.csv", NODES), write(tmp_path / "e.parquet", EDGES)
    with zipfile.ZipFile(tmp_path / "t.zip", "w") as archive:
        for name in ("n.csv", "e.parquet"):
            archive.write(tmp_path / name, name)
    options = {"nodes": f"zip://n.csv::{tmp_path}/t.zip", "edges": f"zip://e.parquet::{tmp_path}/t.zip"}
    assert load_dataset("tables", options, tmp_path).node_ids.tolist() == NODES["id"]


@pytest.mark.parametrize(
    ("path", "message"),
    [("nowhere://n.csv", "Protocol not known"), ("memory://none.csv", "none.csv"), ("dvc://n.csv", "nstall dvc")],
)
def test_a_path_that_cannot_be_opened_is_named(tmp_path: Path, path: str, message: str) -> None:
    with pytest.raises((TableError, FileNotFoundError), match=message):
        load_dataset("tables", {"nodes": path, "edges": path}, tmp_path)


class ForbiddenTables(MemoryFileSystem):
    """Denies what it holds as S3 does, by an error without a number."""

    protocol = "forbidden-tables"
    store: ClassVar[dict] = {}

    def _open(self, path, mode="rb", **options):
        raise PermissionError("Forbidden")


def test_a_file_system_that_fails_is_named_with_advice(tmp_path: Path) -> None:
    fsspec.register_implementation(ForbiddenTables.protocol, ForbiddenTables, clobber=True)
    (tmp_path / "t.zip").write_bytes(b"no archive")
    for path, reason in ((f"zip://n.csv::{tmp_path}/t.zip", "BadZipFile"), ("forbidden-tables://n.csv", "Forbidden")):
        with pytest.raises(TableError, match=rf"{path} cannot be reached \(.*{reason}.*\): see that"):
            load_dataset("tables", {"nodes": path, "edges": path}, tmp_path)


class CountedNames:
    """An Arrow table that counts how often it makes the list of all its names."""

    def __init__(self, table: Any) -> None:
        self.table, self.asked = table, 0

    def __getattr__(self, name: str) -> Any:
        self.asked += name == "column_names"
        return getattr(self.table, name)


def test_names_are_listed_as_often_for_many_columns_as_for_few() -> None:
    asked = []
    for width in (2, 20):
        columns = CountedNames(pa.table({f"x{column}": [1.0, 2.0] for column in range(width)}))
        features = features_of(UserTable("nodes.csv", columns), None, (), None)
        assert features is not None and features.shape == (2, width)
        asked.append(columns.asked)
    assert asked[0] == asked[1]


LETTERS: Columns = {"id": ["1", "2", "x9"], "label": ["cat", "-1", None]}


def test_ends_of_csv_that_look_like_numbers_meet_ids_that_are_text_and_missing_words_are_no_class(
    tmp_path: Path,
) -> None:
    graph = load(tmp_path, LETTERS, {"source": [1, 2], "target": [2, 1]}, "csv")
    assert graph.csr.indices.tolist() == [1, 0]
    assert graph.labels.tolist() == [0, -1, -1] and graph.classes == 1


@pytest.mark.parametrize("note", ["two\nlines", 'a "quoted"\r\nword', '5"'], ids=["quoted", "both", "inches"])
def test_cells_with_line_breaks_are_read_beyond_a_block_of_the_file(tmp_path: Path, note: str) -> None:
    rows = 40_000
    nodes = {"id": list(range(rows)), "note": [note + "." * 40] * rows, "x": [1] * (rows - 1) + [0.5]}
    graph = load(tmp_path, nodes, {"source": [0], "target": [rows - 1]}, "csv", features="x")
    assert graph.nodes == rows and graph.features[-1] == 0.5
    batches = read_batches(str(tmp_path / "nodes.csv"), "node", 1 << 20)
    assert sum(batch.doubles("x").sum() for batch in batches) == rows - 0.5


def test_a_weight_is_one_number_and_a_list_of_label_columns_names_one(tmp_path: Path) -> None:
    with pytest.raises(TableError, match=r"'weight' holds list<.*>: a weight is one number"):
        load(tmp_path, NODES, EDGES | {"weight": [[1.0, 2.0]] * 4})
    with pytest.raises(ValueError, match=r"label=\[\] names no column"):
        load(tmp_path, NODES, EDGES, label=[])


def test_a_damaged_member_of_an_archive_is_named(tmp_path: Path) -> None:
    paths = {"nodes": write(tmp_path / "nodes.csv", NODES), "edges": write(tmp_path / "edges.csv", EDGES)}
    archive = tmp_path / "tables.zip"
    with zipfile.ZipFile(archive, "w") as zipped:
        zipped.write(paths["nodes"], "nodes.csv")
    contents = bytearray(archive.read_bytes())
    contents[contents.index(b"30,")] ^= 1
    archive.write_bytes(contents)
    nodes = f"zip://nodes.csv::{archive}"
    with pytest.raises(ValueError, match=r"tables\.zip is damaged .*: write it again"):
        load_dataset("tables", paths | {"nodes": nodes}, tmp_path)
