"""Parts of text that are damaged between ``dglpart`` and ``convert``: no edge is lost without a word."""

import re

import pytest

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
