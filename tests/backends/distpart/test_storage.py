"""Edges in files: the same parts as in memory, for any bound."""

from dataclasses import replace

import numpy as np
import pytest

from backends.contract import PartitionTask
from backends.distpart.assign import AssignOptions, assign
from backends.distpart.commandline import main
from backends.distpart.files.chunked import write_chunked
from backends.distpart.multilevel import Multilevel
from backends.distpart.typed_graph import typed_graph
from backends.kernels import partition
from backends.kernels.extension import extension
from backends.kernels.growing import Storage
from backends.kernels.partition import UndirectedGraph
from harness.measure.clock import Clock
from tests.backends.distpart.graphs import homogeneous
from tests.backends.distpart.plain_graphs import graph_of, grid, star, task_of
from tests.backends.distpart.test_assignments import assigned
from tests.backends.distpart.test_formats import write_toy
from tests.graphs import awkward_graph

pytestmark = pytest.mark.skipif(extension is None, reason="the kernels are not built")


@pytest.mark.parametrize("most", [1, 5_000, 1 << 30])
@pytest.mark.parametrize("make", [lambda: awkward_graph(4, 4000, 30_000), lambda: grid(80), lambda: star(5000)])
def test_files_hold_what_memory_holds(most, make, tmp_path, monkeypatch):
    monkeypatch.setattr(partition, "_EDGES_AT_ONCE", 1000)
    monkeypatch.setattr(partition, "_ROWS_AT_ONCE", 1000)
    graph = make()
    task = PartitionTask(4, np.ones((graph.nodes, 1), np.int64), 1.03, "cut", 0, 2)
    ours, filed = (
        UndirectedGraph.of(graph.csr, task.weights, 2, storage) for storage in (Storage(), Storage(tmp_path, most))
    )
    np.testing.assert_array_equal(ours.starts, filed.starts)
    np.testing.assert_array_equal(ours.neighbours, filed.neighbours)
    assert isinstance(filed.neighbours, np.memmap) == (most < 1 << 20)
    first, second = (Multilevel(4, task.bounds, 0, 2, 2).assign(own, Clock()) for own in (ours, filed))
    np.testing.assert_array_equal(first, second)
    assert not list(tmp_path.iterdir()), "the files have no names"


def test_an_assignment_with_little_memory_is_that_with_much(tmp_path):
    graph = homogeneous(3, 3000, 20_000)
    weights = np.ones((graph.total_nodes, 1), dtype=np.int64)
    much, little = (assign(graph, weights, AssignOptions(4, memory=memory, workspace=tmp_path)) for memory in (0, 1000))
    np.testing.assert_array_equal(much, little)


def test_the_directed_volume_is_lowered_where_memory_holds_all_edges(tmp_path):
    draw = np.random.default_rng(0)
    graph = graph_of(draw.integers(0, 5000, 40_000), np.minimum(draw.zipf(1.6, 40_000), 4999), 5000)
    weights, bounds = np.ones((5000, 1), dtype=np.int64), (0, 1 << 30, 1 << 16)
    options = AssignOptions(8, objective="volume", workspace=tmp_path)
    unbounded, much, little = (assign(typed_graph(graph), weights, replace(options, memory=most)) for most in bounds)
    np.testing.assert_array_equal(unbounded, much)
    assert (much != little).any(), "the undirected graph stands for the directed one"
    task = replace(task_of(graph, 8), objective="volume")
    cells = [assigned(graph, task, memory=most / 2**30) for most in bounds]
    np.testing.assert_array_equal(cells[0], cells[1])
    assert (cells[1] != cells[2]).any()


def test_classes_of_nodes_in_files_are_balanced(tmp_path):
    mask = (np.arange(400) % 4 == 0).astype(np.uint8)
    graph = replace(homogeneous(5, 400, 2000), node_data={"_N": {"train_mask": mask}})
    chunks, out = tmp_path / "chunks", tmp_path / "out"
    write_chunked(graph, chunks, 3)
    assert main(["assign", str(chunks), "-p", "2", "-o", str(out), "--balance", "train_mask"]) == 0
    parts = np.loadtxt(out / "_N.txt", dtype=np.int64)
    assert np.bincount(parts[mask == 1]).max() <= 52 and np.bincount(parts[mask == 0]).max() <= 155


def test_what_a_killed_command_unpacked_is_removed_by_the_next_one(tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "no such folder"))  # nothing lies in the system's folder
    write_chunked(homogeneous(5, 400, 2000), tmp_path / "chunks", 3)
    left = tmp_path / ".out.workspace"
    left.mkdir()
    (left / "edges-0.npy").write_bytes(b"cut")
    assert main(["assign", str(tmp_path / "chunks"), "-p", "2", "-o", str(tmp_path / "out"), "--memory", "0.001"]) == 0
    assert sorted(path.name for path in tmp_path.iterdir()) == ["chunks", "out"]


def test_dglpart_spools_beside_its_parts(tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "no such folder"))  # nothing lies in the system's folder
    source, target = tmp_path / "text", tmp_path / "out"
    source.mkdir()
    write_toy(source)
    monkeypatch.chdir(source)
    left = target / ".toy.workspace"
    left.mkdir(parents=True)
    (left / "edges-0.npy").write_bytes(b"cut")
    assert main(["dglpart", "toy", "2", "-o", str(target), "--memory", "0.001"]) == 0
    expected = {f"p00{part}-toy_{what}.txt" for part in (0, 1) for what in ("nodes", "edges", "stats")}
    assert {path.name for path in target.iterdir()} == expected
    assert sorted(path.name for path in tmp_path.iterdir()) == ["out", "text"]


@pytest.mark.parametrize("memory", ["0", "-1", "nan", "inf", "much"])
def test_memory_is_a_number_above_0(memory, tmp_path, capsys):
    with pytest.raises(SystemExit, match="2"):
        main(["assign", "cora", "-p", "2", "-o", str(tmp_path / "out"), "--memory", memory])
    assert f"{memory} is not allowed: a number above 0 is needed" in capsys.readouterr().err


@pytest.mark.parametrize("content", [b"x", b"", b"PK\x03\x04"])
def test_rows_that_are_no_numpy_file_are_refused_by_name(content, tmp_path, capsys):
    (tmp_path / "rows.npy").write_bytes(content)
    assert main(["restore", "toy.json", str(tmp_path / "rows.npy"), "-o", str(tmp_path / "out.npy")]) == 2
    assert "rows.npy is no NumPy file" in capsys.readouterr().err


def test_a_graph_that_does_not_exist_leaves_no_folder(tmp_path):
    assert main(["assign", "nothing", "-p", "2", "-o", str(tmp_path / "new" / "out")]) == 2
    assert not list(tmp_path.iterdir())
