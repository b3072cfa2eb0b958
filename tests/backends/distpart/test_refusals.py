"""What a command is refused for is known before the assignment, which may take hours."""

from importlib.metadata import PackageNotFoundError

import numpy as np
import pytest

from backends.distpart import commandline, partition_graph
from backends.distpart.assign import AssignOptions, constraints
from backends.distpart.dispatch.forecast import Forecast
from backends.distpart.dispatch.job import DispatchJob, DispatchOptions, refuse_at_once
from backends.distpart.dispatch.numbering import Numbering
from backends.distpart.dispatch.plan import PLAN, WORK
from backends.distpart.files.chunked import write_chunked
from backends.kernels.extension import extension
from backends.parallel import ray_cluster
from tests.backends.distpart.graphs import homogeneous, stored_graph

pytestmark = pytest.mark.skipif(extension is None, reason="the kernels are not built")


def not_installed(package):
    raise PackageNotFoundError(package)


def refuse_to_assign(*_):
    raise AssertionError("nodes were assigned before the refusal")


@pytest.mark.parametrize(
    ("file", "options", "error", "message"),
    [
        ("toy.json", {}, ValueError, "toy.json exists"),
        ("thesis.txt", {}, ValueError, "not empty"),
        (None, {"memory": 1000}, MemoryError, "dispatch needs"),
    ],
    ids=["done before", "another folder", "memory"],
)
def test_a_partition_is_refused_before_its_assignment(file, options, error, message, tmp_path, monkeypatch):
    monkeypatch.setattr(partition_graph, "assign", refuse_to_assign)
    graph, folder = homogeneous(), tmp_path / "out"
    if file is not None:
        folder.mkdir()
        (folder / file).write_text("mine")
    dispatch = DispatchOptions(**options)
    with pytest.raises(error, match=message):
        partition_graph.write_partition(graph, "toy", folder, constraints(graph), AssignOptions(2), dispatch)
    assert folder.exists() == (file is not None)


def test_a_type_that_dgl_does_not_have_is_refused_before_the_assignment(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(partition_graph, "assign", refuse_to_assign)
    graph = homogeneous()
    graph.node_data["_N"]["odd"] = np.ones(40, np.uint32)
    write_chunked(graph, tmp_path / "chunks", 1)
    assert commandline.main(["partition", str(tmp_path / "chunks"), "-p", "2", "-o", str(tmp_path / "out")]) == 2
    assert "_N/odd: DGL has no tensors of uint32: give signed integers" in capsys.readouterr().err


def test_an_assignment_is_refused_before_it_begins(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(commandline, "assign", refuse_to_assign)
    write_chunked(homogeneous(), tmp_path / "chunks", 1)
    (tmp_path / "out").mkdir()
    assert commandline.main(["assign", str(tmp_path / "chunks"), "-p", "2", "-o", str(tmp_path / "out")]) == 2
    assert "exists: choose another folder" in capsys.readouterr().err


def test_fewer_threads_are_used_where_memory_does_not_hold_all():
    graph = homogeneous(nodes=1_000_000, edges=10)
    alone = Forecast.of(graph, 1 << 30, 1).memory
    forecast = Forecast.of(graph, alone, 64)
    assert (forecast.threads, forecast.memory) == (1, alone)
    assert Forecast.of(graph, 1 << 40, 64).threads == 64


def test_bits_of_far_edges_are_forecast(tmp_path):
    graph = homogeneous(nodes=100, edges=1_000_000)
    one, two = (Forecast.of(graph, 1 << 30, 1, hops).memory for hops in (1, 2))
    assert two - one >= 1_000_000 // 8
    with pytest.raises(MemoryError, match="dispatch needs"):
        refuse_at_once(graph, tmp_path / "out", "toy", DispatchOptions(memory=one, hops=2))


def test_a_dispatch_without_ray_keeps_the_parts_that_are_done(tmp_path, monkeypatch):
    monkeypatch.setattr(ray_cluster, "version", not_installed)
    graph = stored_graph(3, nodes=200, edges=2000)
    parts = np.random.default_rng(0).integers(0, 3, graph.total_nodes).astype(np.int32)
    numbering, folder = Numbering.of(graph, parts, 3), tmp_path / "out"

    class Stop(Exception):
        pass

    def stop(step, done, total):
        if (step, done) == ("write", 2):
            raise Stop

    with pytest.raises(Stop):
        DispatchJob(graph, numbering, folder, "toy", DispatchOptions(), stop).run()
    with pytest.raises(ValueError, match="needs the package ray"):
        DispatchJob(graph, numbering, folder, "toy", DispatchOptions(run_on="ray")).run()
    assert (folder / WORK / PLAN).exists()
    assert (folder / "part0").exists()
