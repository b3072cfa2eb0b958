"""Parts of text: no edge is lost without a word between ``dglpart`` and ``convert``, no number changes."""

import re
import tracemalloc

import pyarrow
import pytest

from backends.distpart.files import text_rows
from backends.distpart.files.text_rows import attributes_of
from backends.distpart.typed_graph import GraphError
from backends.kernels.extension import extension
from tests.backends.distpart.test_formats import TOY_EDGES, converted, run, write_toy

pytestmark = pytest.mark.skipif(extension is None, reason="the kernels are not built")
ID, TYPE = 4, 5  # columns of a part's edges


def set_column(column, value):
    def change(rows):
        words = rows[0].split()
        words[column] = value
        return [" ".join(words), *rows[1:]]

    return change


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (set_column(TYPE, "-1"), r"edges\.txt: row 1 has an id or a type below 0"),
        (set_column(ID, "-3"), r"edges\.txt: row 1 has an id or a type below 0"),
        (lambda rows: rows[:-1], r"edges\.txt has 7 rows, p000-toy_stats\.txt says 8"),
    ],
    ids=["a type below 0", "an id below 0", "a row too few"],
)
def test_damaged_edges_of_a_part_are_refused(change, message, tmp_path, monkeypatch, capsys):
    write_toy(tmp_path)
    monkeypatch.chdir(tmp_path)
    assert run("dglpart", "toy", 1) == 0
    path = tmp_path / "p000-toy_edges.txt"
    path.write_text("".join(f"{row}\n" for row in change(path.read_text().splitlines())))
    assert converted(tmp_path, 1) == 2
    assert re.search(message, capsys.readouterr().err)


@pytest.mark.parametrize("removed", ["3 4 0 -1", "3 4 -1 2"])
def test_removed_edges_below_zero_are_refused(removed, tmp_path, monkeypatch, capsys):
    write_toy(tmp_path, edges=TOY_EDGES[:-1])
    (tmp_path / "removed.txt").write_text(f"{removed}\n")
    monkeypatch.chdir(tmp_path)
    assert run("dglpart", "toy", 1) == 0
    assert converted(tmp_path, 1, "--removed-edges", "removed.txt") == 2
    assert "removed.txt: row 1 has an id or a type below 0" in capsys.readouterr().err


def test_parts_without_statistics_are_read(tmp_path, monkeypatch):
    write_toy(tmp_path)
    monkeypatch.chdir(tmp_path)
    assert run("dglpart", "toy", 1) == 0
    (tmp_path / "p000-toy_stats.txt").unlink()
    assert converted(tmp_path, 1) == 0


@pytest.mark.parametrize(
    ("text", "dtype"),
    [("300", "int8"), ("-1", "uint8"), ("9" * 20, "int64"), ("1e6", "float16"), ("nan", "float32"), ("x", "float64")],
    ids=["int8", "uint8", "int64", "float16", "not a number", "no number"],
)
def test_a_number_that_its_type_does_not_hold_is_refused_by_row(text, dtype):
    rows = pyarrow.array(["1 2", "3 4", f"5 {text}", "7 8"], pyarrow.large_string())
    with pytest.raises(GraphError, match=f"nodes: row 2 is '5 {text}': {dtype} does not hold that"):
        attributes_of(rows, dtype, "nodes")


@pytest.mark.parametrize("dtype", ["number", "bool", "complex64"])
def test_a_type_without_numbers_is_refused_by_name(dtype):
    with pytest.raises(GraphError, match=f"nodes have the type '{dtype}'"):
        attributes_of(pyarrow.array(["1"], pyarrow.large_string()), dtype, "nodes")


def test_text_is_read_and_written_in_blocks(tmp_path, monkeypatch):
    monkeypatch.setattr(text_rows, "_BLOCK", 1 << 16)
    monkeypatch.setattr(text_rows, "_ROWS", 1 << 8)
    path, again = tmp_path / "rows.txt", tmp_path / "again.txt"
    path.write_text("".join(f"{row} {-row} {'x' * 200}\n" for row in range(50_000)))
    tracemalloc.start()
    rows = text_rows.read_rows(path, ("first", "second"))
    text_rows.write_rows(again, list(rows.numbers.T), rows.rest)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert again.read_bytes() == path.read_bytes()
    assert peak < path.stat().st_size / 2  # the text itself lies in Arrow's memory, which is not traced


@pytest.mark.parametrize("number", ["+5", "5.0", "0x5", "5" * 19])
def test_what_is_no_integer_of_64_bits_is_named_by_file_and_row(number, tmp_path):
    path = tmp_path / "rows.txt"
    path.write_text(f"1 2\n-3 4\n{number} 6\n")
    with pytest.raises(GraphError, match=rf"rows\.txt: row 3 has first '{re.escape(number)}': an integer is needed"):
        text_rows.read_rows(path, ("first", "second"))


def test_a_wrong_row_is_named_in_a_later_block(tmp_path, monkeypatch):
    monkeypatch.setattr(text_rows, "_BLOCK", 8)
    path = tmp_path / "rows.txt"
    path.write_text("1 2\n" * 9 + "1 x\n")
    with pytest.raises(GraphError, match=r"rows\.txt: row 10 has second 'x'"):
        text_rows.read_rows(path, ("first", "second"))
