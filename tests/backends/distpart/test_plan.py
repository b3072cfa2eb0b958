"""A stopped dispatch goes on from the same content alone, to the last row; files of others stay where they are."""

from dataclasses import replace

import numpy as np
import pytest

from backends.distpart import partition_graph
from backends.distpart.assign import AssignOptions
from backends.distpart.dispatch.job import DispatchJob, DispatchOptions, refuse_at_once
from backends.distpart.dispatch.numbering import Numbering
from backends.distpart.dispatch.plan import WORK
from backends.distpart.typed_graph import typed_graph
from backends.distpart.verify import verify
from backends.kernels.extension import extension
from datasets.features import sparse_features
from datasets.tables.out_of_core import silent
from tests.backends.distpart.graphs import homogeneous
from tests.graphs import awkward_graph

pytestmark = pytest.mark.skipif(extension is None, reason="the kernels are not built")
NODES, EDGES = 20_000, 100_000
ROW = 7000  # not among 4,096 rows spread over all nodes or edges, nor in 8 runs of 4,096 edges


class Stop(Exception):
    pass


def stop(step, done, total):
    if step == "write":
        raise Stop


def job_of(graph, folder, progress=silent):
    parts = (np.arange(graph.total_nodes) % 3).astype(np.int32)
    return DispatchJob(graph, Numbering.of(graph, parts, 3), folder, "toy", DispatchOptions(), progress)


def begin(graph, folder):
    """A dispatch that is stopped after the first of its parts."""
    with pytest.raises(Stop):
        job_of(graph, folder, stop).run()
    assert (folder / "part0").exists()


def large_graph():
    """A graph in memory, and the arrays of it that are written."""
    graph = homogeneous(nodes=NODES, edges=EDGES)
    ((relation, edges),) = graph.edges.items()
    edges = replace(edges, ids=np.arange(EDGES)[::-1].copy())
    bag = sparse_features(np.arange(NODES), np.arange(NODES) % 8, np.ones(NODES, np.float32), (NODES, 8))
    graph.node_data["_N"]["bag"] = bag
    arrays = {
        "feature": graph.node_data["_N"]["feat"],
        "sparse feature": bag.values,
        "weight": graph.edge_data[relation]["weight"],
        "source": edges.sources,
        "destination": edges.destinations,
        "id": edges.ids,
    }
    return replace(graph, edges={relation: edges}), arrays


@pytest.mark.parametrize("what", ["feature", "sparse feature", "weight", "source", "destination", "id"])
def test_any_other_row_of_arrays_in_memory_is_another_dispatch(what, tmp_path):
    graph, arrays = large_graph()
    begin(graph, tmp_path / "out")
    before = arrays[what][ROW].copy()
    arrays[what][ROW] += 1
    with pytest.raises(ValueError, match="begun from other input"):
        job_of(graph, tmp_path / "out").run()
    arrays[what][ROW] = before
    assert verify(graph, job_of(graph, tmp_path / "out").run())["parts"] == 3


def test_a_data_set_of_another_hash_or_in_another_order_is_another_dispatch(tmp_path):
    graph = replace(awkward_graph(1, NODES, 1000), sha256="one")
    begin(typed_graph(graph), tmp_path / "out")
    features = graph.features.copy()
    features[ROW] += 1
    for other in (
        replace(graph, features=features, sha256="other"),
        replace(graph, features=graph.features[::-1].copy()),
    ):
        with pytest.raises(ValueError, match="begun from other input"):
            job_of(typed_graph(other), tmp_path / "out").run()
    assert job_of(typed_graph(graph), tmp_path / "out").run().exists()


def test_other_trainers_in_the_same_parts_are_another_dispatch(tmp_path, monkeypatch):
    graph = typed_graph(replace(awkward_graph(1, NODES, 100), sha256="one"))
    weights = np.ones((NODES, 1), dtype=np.int64)

    def write(trainers, progress=silent):
        monkeypatch.setattr(partition_graph, "assign", lambda *_: trainers)
        partition_graph.write_partition(
            graph, "toy", tmp_path / "out", weights, AssignOptions(2), DispatchOptions(), 2, progress
        )

    trainers = np.repeat(np.arange(4, dtype=np.int32), NODES // 4)
    other = trainers.copy()
    other[ROW] = 0  # the other trainer of part 0
    with pytest.raises(Stop):
        write(trainers, stop)
    with pytest.raises(ValueError, match="begun from other input"):
        write(other)
    write(trainers)
    assert (tmp_path / "out" / "toy.json").exists()


@pytest.mark.parametrize("is_done", [False, True], ids=["alone", "beside a JSON"])
def test_a_folder_of_others_by_the_name_of_the_buckets_stays(is_done, tmp_path):
    graph, folder = homogeneous(), tmp_path / "out"
    (folder / WORK).mkdir(parents=True)
    (folder / WORK / "thesis.txt").write_text("mine")
    if is_done:
        (folder / "toy.json").write_text("{}")
    for refused in (job_of(graph, folder).run, lambda: refuse_at_once(graph, folder, "toy", DispatchOptions())):
        with pytest.raises(ValueError, match="choose another folder"):
            refused()
        assert (folder / WORK / "thesis.txt").read_text() == "mine"


def test_files_of_others_among_the_buckets_stay(tmp_path):
    graph, folder = homogeneous(), tmp_path / "out"
    begin(graph, folder)
    (folder / WORK / "thesis.txt").write_text("mine")
    (folder / ".notes").write_text("mine")
    with pytest.raises(ValueError, match="has files of others"):
        job_of(graph, folder).run()
    (folder / WORK / "thesis.txt").unlink()
    assert job_of(graph, folder).run().exists()
    assert not (folder / WORK).exists()
    assert (folder / ".notes").read_text() == "mine"
