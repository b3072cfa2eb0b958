"""Dispatch: the parts are the graph, to the bit, for any pieces and threads; a changed file is found."""

import contextlib
import filecmp
import json
import tracemalloc

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from backends.distpart.assign import AssignOptions, assign, constraints
from backends.distpart.dispatch.job import DispatchJob, DispatchOptions
from backends.distpart.dispatch.numbering import Numbering
from backends.distpart.partition_graph import partition_graph
from backends.distpart.restore import restore
from backends.distpart.typed_graph import GraphError, typed_graph
from backends.distpart.verify import verify
from backends.kernels.extension import extension
from datasets.partition.dgl_format import TensorRows, read_graph, read_tensors, write_graph, write_tensors
from tests.backends.distpart.graphs import TYPED, homogeneous, stored_graph
from tests.backends.distpart.kills import kill_and_resume
from tests.graphs import awkward_graph

pytestmark = pytest.mark.skipif(extension is None, reason="the kernels are not built")


def dispatched(graph, parts, count, folder, **options):
    parts = np.asarray(parts, dtype=np.int32)
    job = DispatchJob(graph, Numbering.of(graph, parts, count), folder, "toy", DispatchOptions(**options))
    return job.run()


def random_parts(graph, count, seed=0):
    return np.random.default_rng(seed).integers(0, count, graph.total_nodes)


def assert_same_files(first, second):
    names = sorted(str(path.relative_to(first)) for path in first.rglob("*") if path.is_file())
    assert names == sorted(str(path.relative_to(second)) for path in second.rglob("*") if path.is_file())
    assert filecmp.cmpfiles(first, second, names, shallow=False)[0] == names


@settings(deadline=None, max_examples=30)
@given(
    seed=st.integers(0, 50),
    count=st.integers(1, 9),
    nodes=st.integers(2, 60),
    edges=st.integers(1, 200),
    typed=st.booleans(),
    hops=st.integers(1, 3),
)
def test_all_parts_together_are_the_graph(tmp_path_factory, seed, count, nodes, edges, typed, hops):
    graph = stored_graph(seed, TYPED, nodes, edges) if typed else homogeneous(seed, nodes, edges)
    folder = tmp_path_factory.mktemp("parts")
    config = dispatched(graph, random_parts(graph, count, seed), count, folder / "out", hops=hops)
    counts = verify(graph, config)
    assert (counts["nodes"], counts["edges"]) == (graph.total_nodes, graph.total_edges)


@pytest.mark.parametrize("make", [stored_graph, homogeneous], ids=["typed", "homogeneous"])
@pytest.mark.parametrize("options", [{"threads": 3}, {"hops": 2, "threads": 2, "original_ids": True}], ids=str)
def test_bytes_do_not_depend_on_pieces_and_threads(make, options, tmp_path, monkeypatch):
    graph, count = make(3, nodes=400, edges=5000), 5
    parts = random_parts(graph, count)
    whole = dispatched(graph, parts, count, tmp_path / "whole", **(options | {"threads": 1}))
    monkeypatch.setattr("backends.distpart.dispatch.forecast._PIECE", 700)
    monkeypatch.setattr("backends.distpart.dispatch.forecast._LEAST_PIECE", 700)
    assert verify(graph, dispatched(graph, parts, count, tmp_path / "pieces", **options))
    assert_same_files(whole.parent, tmp_path / "pieces")


def test_two_hops_are_the_in_edges_of_the_halo_nodes(tmp_path):
    graph, count = homogeneous(5, 40, 90), 4
    parts = random_parts(graph, count)
    config = dispatched(graph, parts, count, tmp_path / "out", hops=2)
    (ends,) = (edges.read(0, edges.count) for edges in graph.edges.values())
    for part in range(count):
        stored = read_graph(config.parent / f"part{part}" / "graph.dgl")
        owned = set(np.flatnonzero(parts == part).tolist())
        first = {(s, d) for s, d in zip(*(e.tolist() for e in ends), strict=True) if d in owned}
        halo = {s for s, _ in first} - owned
        second = {(s, d) for s, d in zip(*(e.tolist() for e in ends), strict=True) if d in halo}
        originals = np.argsort(parts, kind="stable")[stored.ndata["_ID"]]
        inner = stored.edata["inner_edge"].astype(bool)
        pairs = list(zip(originals[stored.sources].tolist(), originals[stored.destinations].tolist(), strict=True))
        assert {pair for pair, own in zip(pairs, inner, strict=True) if own} == first
        assert {pair for pair, own in zip(pairs, inner, strict=True) if not own} == second


def test_far_edges_take_a_bit_each_while_a_part_is_written(tmp_path, monkeypatch):
    monkeypatch.setattr("backends.distpart.dispatch.forecast._PIECE", 1 << 14)
    graph = homogeneous(nodes=1000, edges=400_000)
    parts = random_parts(graph, 2)
    tracemalloc.start()
    config = dispatched(graph, parts, 2, tmp_path / "out", hops=2)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    far_edges = sum(
        int((read_graph(path).edata["inner_edge"] == 0).sum()) for path in config.parent.glob("*/graph.dgl")
    )
    assert peak < 8 * far_edges  # of one part at a time, half of them, which took 20 bytes each


def test_hops_without_further_nodes_take_no_time(tmp_path):
    graph = homogeneous(5, 40, 90)
    config = dispatched(graph, random_parts(graph, 4), 4, tmp_path / "out", hops=10**9)
    assert verify(graph, config)["parts"] == 4


def test_an_interrupted_dispatch_goes_on_to_the_same_bytes(tmp_path, monkeypatch):
    graph, count = stored_graph(3, nodes=200, edges=2000), 6
    parts = random_parts(graph, count)
    monkeypatch.setattr("backends.distpart.dispatch.forecast._PIECE", 700)
    monkeypatch.setattr("backends.distpart.dispatch.forecast._LEAST_PIECE", 700)
    whole = dispatched(graph, parts, count, tmp_path / "whole")

    class Stop(Exception):
        pass

    steps = []

    def stop_at(limit):
        def progress(step, done, total):
            steps.append((step, done))
            if len(steps) == limit:
                raise Stop

        return progress

    (tmp_path / "resumed" / ".work" / ".plan.json.7.tmp").mkdir(parents=True)  # killed before its plan was written
    for limit in (1, 4, 13, 15):
        steps.clear()
        numbering = Numbering.of(graph, parts.astype(np.int32), count)
        job = DispatchJob(graph, numbering, tmp_path / "resumed", "toy", DispatchOptions(), stop_at(limit))
        with pytest.raises(Stop):
            job.run()
        assert not (tmp_path / "resumed" / "toy.json").exists()
    dispatched(graph, parts, count, tmp_path / "resumed")
    assert_same_files(whole.parent, tmp_path / "resumed")
    (tmp_path / "resumed" / ".work" / "000-000000").mkdir(parents=True)  # killed between the JSON and the end
    with pytest.raises(ValueError, match=r"toy\.json exists"):
        dispatched(graph, parts, count, tmp_path / "resumed")
    assert not (tmp_path / "resumed" / ".work").exists()


def test_another_dispatch_in_the_same_folder_is_refused(tmp_path, monkeypatch):
    graph = stored_graph()
    monkeypatch.setattr(
        "backends.distpart.dispatch.job.write_part", lambda *_: (_ for _ in ()).throw(OSError("stopped"))
    )
    with pytest.raises(OSError, match="stopped"):
        dispatched(graph, random_parts(graph, 3), 3, tmp_path / "out")
    monkeypatch.undo()
    changed = stored_graph()
    changed.node_data["paper"]["feat"][5] += 1
    for other, seed in ((graph, 1), (changed, 0), (stored_graph(1), 0)):
        with pytest.raises(ValueError, match="begun from other input"):
            dispatched(other, random_parts(graph, 3, seed), 3, tmp_path / "out")
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "thesis.txt").write_text("mine")
    with pytest.raises(ValueError, match="not empty"):
        dispatched(graph, random_parts(graph, 3), 3, tmp_path / "full")
    assert (tmp_path / "full" / "thesis.txt").read_text() == "mine"


CHANGES = {
    "a feature": lambda folder, part: change(folder / part / "node_feat.dgl", -1),
    "an edge's end": lambda folder, part: swap_sources(folder / part / "graph.dgl"),
    "an original id": lambda folder, part: change(folder / part / "orig_nids.dgl", -8),
    "the map of nodes": lambda folder, _: save_map(folder / "node_map.npy"),
    "the map of edges": lambda folder, _: save_map(folder / "edge_map.npy"),
    "a range": lambda folder, _: shift_range(folder / "toy.json"),
}


def change(path, position):
    content = bytearray(path.read_bytes())
    content[position] ^= 1
    path.write_bytes(content)


def swap_sources(path):
    stored = read_graph(path)
    sources = np.array(stored.sources)
    other = np.flatnonzero(sources != sources[0])[0]
    sources[0], sources[other] = sources[other], sources[0]
    ndata, edata = ({k: TensorRows.of(np.array(v)) for k, v in table.items()} for table in (stored.ndata, stored.edata))
    write_graph(path, stored.nodes, TensorRows.of(sources), TensorRows.of(np.array(stored.destinations)), ndata, edata)


def save_map(path):
    values = np.load(path)
    values[0] = values[0] ^ 1
    np.save(path, values)


def shift_range(path):
    facts = json.loads(path.read_text())
    next(iter(facts["edge_map"].values()))[0][1] -= 1
    path.write_text(json.dumps(facts))


@pytest.mark.parametrize("what", CHANGES)
@pytest.mark.parametrize("make", [stored_graph, homogeneous], ids=["typed", "homogeneous"])
def test_a_changed_part_is_found(what, make, tmp_path):
    graph = make(2)
    config = dispatched(graph, random_parts(graph, 3), 3, tmp_path / "out")
    verify(graph, config)
    CHANGES[what](tmp_path / "out", "part1")
    with pytest.raises(ValueError, match=r"part \d|map|node|tensor|edge"):
        verify(graph, config)


def test_rows_by_new_id_are_restored(tmp_path):
    graph = stored_graph(1)
    config = tmp_path / "out" / "toy.json"
    nodes, edges = partition_graph(graph, "toy", 3, tmp_path / "out", part_method="random", return_mapping=True)
    for kind in ("author", "paper"):
        rows = graph.node_data[kind]["feat"][nodes[kind]]
        np.save(tmp_path / "rows.npy", rows)
        restore(config, rows, kind, tmp_path / f"{kind}.npy")
        np.testing.assert_array_equal(np.load(tmp_path / f"{kind}.npy"), graph.node_data[kind]["feat"])
    writes = TYPED.relations[0]
    restore(config, graph.edge_data[writes]["weight"][edges[writes]], str(writes), tmp_path / "edges.npy")
    np.testing.assert_array_equal(np.load(tmp_path / "edges.npy"), graph.edge_data[writes]["weight"])
    with pytest.raises(GraphError, match="several types"):
        restore(config, np.zeros(3), None, tmp_path / "none.npy")
    with pytest.raises(GraphError, match="3 rows were given, author has 30"):
        restore(config, np.zeros(3), "author", tmp_path / "none.npy")


@pytest.mark.parametrize("method", ["multilevel", "random", "metis"])
@pytest.mark.parametrize("parts", [1, 4])
def test_a_graph_of_the_harness_is_partitioned(method, parts, tmp_path):
    graph = awkward_graph(1, 300, 900, weighted=True)
    nodes, edges = partition_graph(graph, "mine", parts, tmp_path / "out", part_method=method, return_mapping=True)
    verify(typed_graph(graph), tmp_path / "out" / "mine.json")
    assert sorted(nodes.tolist()) == list(range(300))
    np.testing.assert_array_equal(np.sort(edges), np.sort(graph.csr.ids))


def test_trainers_are_parts_of_parts(tmp_path, monkeypatch):
    graph = homogeneous(4, 200, 800)
    monkeypatch.setattr("backends.distpart.partition_graph._PIECE", 100)
    (edges,) = graph.edges.values()
    lengths, read = [], type(edges).read
    monkeypatch.setattr(
        type(edges), "read", lambda self, start, stop: lengths.append(stop - start) or read(self, start, stop)
    )
    partition_graph(graph, "toy", 2, tmp_path / "out", num_trainers_per_machine=3)
    for part in range(2):
        trainers = read_tensors(tmp_path / "out" / f"part{part}" / "node_feat.dgl")["_N/trainer_id"]
        assert set(trainers.tolist()) == {3 * part, 3 * part + 1, 3 * part + 2}
    assert lengths.count(100) == 8  # edges are never read as a whole for it


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"graph_name": "a-b"}, "letters, digits and underscores"),
        ({"graph_name": ""}, "letters, digits and underscores"),
        ({"graph_name": "a" * 201}, "up to 200 letters"),
        ({"num_parts": 0}, "at least 1"),
        ({"num_parts": 10_000}, "parts are more than the 40 nodes"),
        ({"part_method": "best"}, "one of multilevel"),
        ({"objtype": "speed"}, "one of cut"),
        ({"num_hops": 0}, "at least 1"),
        ({"threads": 0}, "at least 1"),
        ({"num_trainers_per_machine": 0}, "at least 1"),
        ({"graph_formats": "csc"}, "files are in coo"),
        ({"balance_ntypes": np.zeros(3)}, "3 classes to balance for 40 nodes"),
        ({"balance_ntypes": {"planet": np.zeros(3)}}, "node type planet"),
    ],
    ids=str,
)
def test_wrong_arguments_are_refused_and_nothing_is_written(arguments, message, tmp_path):
    arguments = {"graph_name": "toy", "num_parts": 2} | arguments
    with pytest.raises(ValueError, match=message):
        partition_graph(homogeneous(), out_path=tmp_path / "out", **arguments)
    assert not (tmp_path / "out").exists()


def test_too_little_memory_and_too_small_a_disk_are_refused(tmp_path, monkeypatch):
    graph = homogeneous()
    with pytest.raises(MemoryError, match="dispatch needs"):
        dispatched(graph, random_parts(graph, 2), 2, tmp_path / "a", memory=1000)
    monkeypatch.setattr("shutil.disk_usage", lambda _: type("Usage", (), {"free": 10})())
    with pytest.raises(OSError, match="are needed"):
        dispatched(graph, random_parts(graph, 2), 2, tmp_path / "b")


def test_tensors_of_all_types_are_read_back(tmp_path):
    draw = np.random.default_rng(0)
    types = ["i1", "i2", "i4", "i8", "u1", "f2", "f4", "f8"]
    tensors = {name: draw.integers(0, 100, (5, 2)).astype(name) for name in types}
    tensors |= {"empty": np.empty((0, 3), np.float32), "scalar rows": np.arange(4), "": np.ones(1)}
    write_tensors(tmp_path / "t.dgl", {name: TensorRows.of(array) for name, array in tensors.items()})
    stored = read_tensors(tmp_path / "t.dgl")
    assert set(stored) == set(tensors)
    for name, array in tensors.items():
        assert stored[name].dtype == array.dtype
        np.testing.assert_array_equal(stored[name], array)


@pytest.mark.parametrize("dtype", ["u2", "u4", "u8", "c8", "U3"])
def test_attributes_that_dgl_has_no_type_for_are_refused_and_nothing_is_left(dtype, tmp_path):
    graph = homogeneous()
    graph.node_data["_N"]["odd"] = np.ones(40).astype(dtype)
    with pytest.raises(ValueError, match=r"DGL has no tensors of .*give signed integers"):
        dispatched(graph, random_parts(graph, 2), 2, tmp_path / "out")
    assert not (tmp_path / "out").exists()


@settings(deadline=None, max_examples=60)
@given(st.data())
def test_a_damaged_file_is_an_error_and_nothing_else(tmp_path_factory, data):
    folder = tmp_path_factory.mktemp("damaged")
    path = folder / "g.dgl"
    column = TensorRows.of(np.arange(3))
    write_graph(path, 3, column, column, {"_ID": column}, {"_ID": column})
    content = bytearray(path.read_bytes())
    place = data.draw(st.one_of(st.integers(0, 31), st.integers(4096, len(content) - 1)))
    if data.draw(st.booleans()):
        content[place] = data.draw(st.integers(0, 255))
    else:
        del content[place:]
    path.write_bytes(content)
    with contextlib.suppress(ValueError):
        read_graph(path)


def test_killed_dispatches_go_on_to_the_same_bytes(tmp_path):
    outcome = kill_and_resume(2, tmp_path, nodes=2000, edges=9000)
    assert outcome["differ"] == 0
    assert outcome["killed"] + outcome["done before"] == 2


@pytest.mark.needs_ray
def test_ray_writes_the_same_bytes(tmp_path):
    graph = stored_graph(4, nodes=300, edges=4000)
    parts = random_parts(graph, 5)
    local = dispatched(graph, parts, 5, tmp_path / "local")
    dispatched(graph, parts, 5, tmp_path / "ray", run_on="ray")
    assert_same_files(local.parent, tmp_path / "ray")


def test_constraints_are_those_of_dgl_and_are_kept():
    graph = stored_graph(6, nodes=400, edges=3000)
    kinds = constraints(graph)
    np.testing.assert_array_equal(kinds.sum(axis=0), [400, 407, 0][: kinds.shape[1]])
    both = constraints(graph, edges=True)
    assert both.shape[1] == 2 * kinds.shape[1]
    assert both[:, kinds.shape[1] :].sum() == graph.total_edges
    single = constraints(homogeneous(6), edges=True)
    assert single.shape == (40, 1)
    assert single.sum() == 150
    masks = {"paper": np.arange(407) % 2}
    classes = constraints(graph, node_types=masks)
    np.testing.assert_array_equal(classes.sum(axis=0), [400, 204, 203])
    for weights in (kinds, classes):
        parts = assign(graph, weights, AssignOptions(4, strict=True))
        loads = np.array([weights[parts == part].sum(axis=0) for part in range(4)])
        assert (loads.max(axis=0) <= np.maximum(1.03 * weights.sum(axis=0) / 4, -(-weights.sum(axis=0) // 4))).all()


def test_strict_refuses_a_bound_that_cannot_be_reached():
    graph = homogeneous(6)
    weights = np.ones((40, 1), dtype=np.int64)
    weights[7] = 100
    assign(graph, weights, AssignOptions(4))
    with pytest.raises(GraphError, match=r"part \d has a load of 10\d in constraint 0"):
        assign(graph, weights, AssignOptions(4, strict=True))
    with pytest.raises(GraphError, match="node 3 has weight -1"):
        assign(graph, np.where(np.arange(40)[:, None] == 3, -1, weights), AssignOptions(4))
