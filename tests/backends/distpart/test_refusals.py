"""What a command is refused for is known before the assignment, which may take hours."""

import errno
import json
import os
import sys
import tracemalloc
from contextlib import nullcontext
from importlib.metadata import PackageNotFoundError
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from backends.contract import PartitionTask
from backends.distpart import commandline, partition_graph
from backends.distpart.assign import AssignOptions, constraints
from backends.distpart.dispatch.forecast import Forecast
from backends.distpart.dispatch.job import DispatchJob, DispatchOptions, refuse_at_once
from backends.distpart.dispatch.numbering import Numbering
from backends.distpart.dispatch.plan import PLAN, WORK
from backends.distpart.dispatcher import options_of
from backends.distpart.files.chunked import write_chunked
from backends.distpart.typed_graph import ArrayEdges, GraphError, TypedGraph
from backends.distpart.verify import verify
from backends.kernels.extension import extension
from backends.parallel import ray_cluster
from backends.registry import config_class
from datasets.schema import HOMOGENEOUS, Relation, Schema
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


def test_dgls_function_may_use_the_memory_of_the_machine(tmp_path, monkeypatch):
    monkeypatch.setattr("backends.distpart.dispatch.forecast._LEAST_PIECE", 1 << 25)  # each thread needs 3 GiB
    graph = homogeneous()
    with pytest.raises(MemoryError, match="dispatch needs"):
        refuse_at_once(graph, tmp_path / "out", "toy", DispatchOptions())
    partition_graph.partition_graph(graph, "toy", 2, tmp_path / "out", threads=1)
    assert verify(graph, tmp_path / "out" / "toy.json")["parts"] == 2


@pytest.mark.parametrize("threads", [1, 64])
def test_a_cell_is_bounded_by_the_memory_that_it_names_alone(threads):
    (kind,), (relation,), none = HOMOGENEOUS.node_types, HOMOGENEOUS.relations, np.empty(0, np.int64)
    graph = TypedGraph("large", HOMOGENEOUS, {kind: 10**9}, {relation: ArrayEdges(none, none)})
    task = PartitionTask(2, np.ones((4, 1), np.int64), 1.03, "cut", 0, threads)
    for memory in (0, 2):
        _, writing = options_of(config_class("distpart")(memory=memory), task)
        forecast = Forecast.of(graph, writing.memory, writing.threads)
        assert (forecast.memory <= writing.memory) == (memory == 0)
        assert forecast.threads == (1 if memory else threads)


@pytest.mark.parametrize(("hops", "original_ids"), [(1, False), (1, True), (2, True)])
@pytest.mark.parametrize(("make_graph", "nodes"), [(homogeneous, 120_000), (stored_graph, 60_000)])
def test_the_forecast_holds_the_tables_of_a_part(make_graph, nodes, hops, original_ids, tmp_path):
    graph = make_graph(nodes=nodes, edges=2 * nodes)
    memory = Forecast.of(graph, 1 << 40, 1, hops).memory
    small = homogeneous()  # for what is imported at the first dispatch of a process
    DispatchJob(small, Numbering.of(small, np.zeros(40, np.int32), 1), tmp_path / "first", "toy").run()
    tracemalloc.start()
    parts = np.random.default_rng(0).integers(0, 3, graph.total_nodes).astype(np.int32)
    numbering, options = Numbering.of(graph, parts, 3), DispatchOptions(memory, hops=hops, original_ids=original_ids)
    DispatchJob(graph, numbering, tmp_path / "out", "toy", options).run()
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak <= memory


def test_loads_are_freed_before_parts_are_written(tmp_path):
    graph, sizes = homogeneous(nodes=50_000, edges=10), []

    def progress(step, done, total):
        if step == "map":
            sizes.append(tracemalloc.get_traced_memory()[0])

    tracemalloc.start()
    partition_graph.write_partition(
        graph,
        "toy",
        tmp_path / "out",
        np.ones((50_000, 20), dtype=np.int64),
        AssignOptions(2, "random"),
        DispatchOptions(),
        progress=progress,
    )
    tracemalloc.stop()
    assert 0 < max(sizes) < 50_000 * 20 * 8


def test_an_output_beside_which_nothing_can_be_written_is_refused_with_what_to_do(tmp_path, monkeypatch, capsys):
    write_chunked(homogeneous(), tmp_path / "chunks", 1)
    open_file = Path.open

    def refuse_locks(path, *arguments, **options):
        if path.suffix == ".lock":  # as for a user who may not write there; root may
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))
        return open_file(path, *arguments, **options)

    monkeypatch.setattr(Path, "open", refuse_locks)
    advice = "choose an output inside of a folder that you may write"
    assert commandline.main(["partition", str(tmp_path / "chunks"), "-p", "2", "-o", str(tmp_path / "out")]) == 1
    assert advice in capsys.readouterr().err
    with pytest.raises(PermissionError, match=advice):
        refuse_at_once(homogeneous(), tmp_path / "out", "toy", DispatchOptions())


def with_slash(what):
    """A graph with a slash in the name of a type of nodes, of a relation, or of an attribute."""
    if what == "attribute":
        graph = homogeneous()
        graph.node_data["_N"]["x/y"] = np.ones(40)
        return graph
    kind, name = ("a/b", "r") if what == "node type" else ("a", "r/s")
    return stored_graph(schema=Schema((kind,), (Relation(kind, name, kind),)))


@pytest.mark.parametrize("what", ["node type", "relation", "attribute"])
def test_names_at_which_dgl_would_split_are_refused(what, tmp_path):
    graph = with_slash(what)
    for refused in (
        lambda: write_chunked(graph, tmp_path / "chunks", 1),
        lambda: refuse_at_once(graph, tmp_path / "out", "toy", DispatchOptions()),
    ):
        with pytest.raises(GraphError, match=r"'.*/.*' has a slash, at which DGL splits .*: rename"):
            refused()
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("command", ["assign", "partition"])
def test_a_name_with_a_slash_in_the_metadata_is_refused_before_the_assignment(command, tmp_path, monkeypatch, capsys):
    for module in (commandline, partition_graph):
        monkeypatch.setattr(module, "assign", refuse_to_assign)
    write_chunked(homogeneous(), tmp_path / "chunks", 1)
    path = tmp_path / "chunks" / "metadata.json"
    path.write_text(path.read_text().replace('"feat"', '"fe/at"'))
    assert "fe/at" in json.loads(path.read_text())["node_data"]["_N"]
    assert commandline.main([command, str(tmp_path / "chunks"), "-p", "2", "-o", str(tmp_path / "out")]) == 2
    assert "'fe/at' has a slash" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("address", "is_started", "outcome"),
    [
        (None, False, pytest.raises(ValueError, match="too long a path for Ray's sockets: set TMPDIR")),
        (None, True, nullcontext()),
        ("auto", False, nullcontext()),
    ],
    ids=["started here", "started before", "joined"],
)
def test_a_temporary_folder_too_long_for_ray_is_refused_at_once(address, is_started, outcome, tmp_path, monkeypatch):
    monkeypatch.setattr(ray_cluster, "version", lambda _: "2.40")
    monkeypatch.setitem(sys.modules, "ray", SimpleNamespace(is_initialized=lambda: is_started))
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / ("long" * 20)))
    with outcome:
        refuse_at_once(homogeneous(), tmp_path / "out", "toy", DispatchOptions(run_on="ray", address=address))


@pytest.mark.parametrize(
    ("error", "stays"),
    [(ValueError("not of the graph"), True), (GraphError("of the graph"), False)],
    ids=["another error", "a wrong graph"],
)
def test_only_a_wrong_graph_takes_the_parts_that_are_done_away(error, stays, tmp_path):
    graph, folder = stored_graph(3, nodes=200, edges=2000), tmp_path / "out"
    parts = np.random.default_rng(0).integers(0, 3, graph.total_nodes).astype(np.int32)
    numbering = Numbering.of(graph, parts, 3)

    def stop(step, done, total):
        if (step, done) == ("write", 2):
            raise error

    with pytest.raises(ValueError, match="of the graph"):
        DispatchJob(graph, numbering, folder, "toy", DispatchOptions(), stop).run()
    assert (folder / "part0").exists() == folder.exists() == stays
    DispatchJob(graph, numbering, folder, "toy").run()
    assert (folder / "toy.json").exists()


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
