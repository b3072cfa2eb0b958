"""Ids of CSV files say what is written there, whole or in pieces; wide rows are read many at a time."""

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet

from datasets.registry import load_dataset
from datasets.tables.node_stream import NAMES
from datasets.tables.options import TableOptions
from datasets.tables.reading import read_batches, read_table
from datasets.tables.streaming import stream_tables
from datasets.tables.table import TableError, UserTable

WRITTEN = [
    ["00123", "7"],
    ["007", "7"],
    ["0x1f", "31"],
    ["+5", "5"],
    ["12345678901234567890", "1"],
    ["99999999999999999999999", "1"],
    ["1e3", "1000"],
    ["2024-01-01", "5"],
    ["NA", "Namibia"],
]


def tables(folder: Path, ids: list[str], edges: list[tuple[str, str]]) -> list[str]:
    """Write both tables as they stand."""
    rows = {
        "nodes": [("id", "x"), *((one, "0.5") for one in ids)],
        "edges": [("source", "target"), *edges],
    }
    for name, lines in rows.items():
        (folder / f"{name}.csv").write_text("\n".join(map(",".join, lines)) + "\n")
    return [str(folder / "nodes.csv"), str(folder / "edges.csv")]


def both(folder: Path, paths: list[str]) -> tuple[Any, Any]:
    """The graph of two tables, read whole and in pieces."""
    whole = load_dataset("tables", {"nodes": paths[0], "edges": paths[1], "features": "x"}, folder)
    return whole, stream_tables(TableOptions(*paths, features="x"), folder / "graph")


@pytest.mark.parametrize("ids", WRITTEN, ids=lambda ids: ids[0])
def test_ids_that_integers_cannot_say_stay_text(tmp_path: Path, ids: list[str]) -> None:
    """Ends that would be whole numbers by themselves are text too."""
    whole, streamed = both(tmp_path, tables(tmp_path, ids, [(ids[1], ids[0])]))
    assert parquet.read_table(tmp_path / "graph" / NAMES).column("name").to_pylist() == ids
    for graph in (whole, streamed):
        assert graph.node_ids is None and graph.csr.indptr.tolist() == [0, 1, 1] and graph.csr.indices.tolist() == [1]


@pytest.mark.parametrize(
    "ids",
    [["5", "-7", "0"], [" 5", "6 ", "7"], ["9223372036854775807", "-1", "10"]],
    ids=["signs", "blanks", "63 bits"],
)
def test_whole_numbers_are_integers(tmp_path: Path, ids: list[str]) -> None:
    for graph in both(tmp_path, tables(tmp_path, ids, [(ids[0], ids[2])])):
        assert graph.node_ids.tolist() == [int(one) for one in ids] and graph.csr.indices.tolist() == [0]


def test_one_id_far_from_the_first_makes_all_of_them_text(tmp_path: Path) -> None:
    ids = [*map(str, range(300_000)), "007"]
    whole, streamed = both(tmp_path, tables(tmp_path, ids, [("7", "007")]))
    for graph in (whole, streamed):
        assert graph.node_ids is None and graph.csr.indptr[-2:].tolist() == [0, 1] and graph.csr.indices.tolist() == [7]


@pytest.mark.parametrize("missing", ["", "NA"])
def test_a_missing_id_among_whole_numbers_is_named(tmp_path: Path, missing: str) -> None:
    paths = tables(tmp_path, ["1", missing, "3"], [("1", "3")])
    for read in (load_dataset, lambda *_: stream_tables(TableOptions(*paths, features="x"), tmp_path / "graph")):
        with pytest.raises(TableError, match=r"row 2, column 'id': is empty: every row needs an id"):
            read("tables", {"nodes": paths[0], "edges": paths[1], "features": "x"}, tmp_path)


def test_wide_rows_are_read_many_at_a_time_and_may_be_longer_than_a_block(tmp_path: Path) -> None:
    names, rows = [f"c{number}" for number in range(2000)], 1500
    (tmp_path / "wide.csv").write_text("\n".join([",".join(names), *[",".join(["0.25"] * 2000)] * rows]) + "\n")
    batches = list(read_batches(str(tmp_path / "wide.csv"), "node", 1 << 28))
    assert sum(batch.rows for batch in batches) == rows and len(batches) <= 3
    (tmp_path / "long.csv").write_text(f"id,note\n1,{'a' * (3 << 20)}\n2,b\n")
    assert [batch.rows for batch in read_batches(str(tmp_path / "long.csv"), "node", 1 << 28)] == [2]
    assert read_table(str(tmp_path / "long.csv"), "node").rows == 2


def test_lists_are_joined_with_64_bits() -> None:
    """Together they may have more than 2^31 numbers."""
    chunks = pa.chunked_array([pa.array([[1.0, 2.0]], pa.list_(pa.float32()))] * 2)
    table = UserTable("nodes.parquet", pa.table({"x": chunks}))
    assert pa.types.is_large_list(table.column("x").type)
    assert np.array_equal(table.floats("x", None), [[1, 2], [1, 2]])
