"""GraphFlat by tasks: the bytes of the local engine for any reducers and hub threshold; balance, resumption."""

import os
import signal
import threading
import tracemalloc

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyarrow import parquet

from backends.agl.flat import drivers
from backends.agl.flat.drivers import FlattenRounds, flatten_batches
from backends.agl.flat.job import FlattenJob, flatten_to, nodes_to_flatten
from backends.agl.flat.mapreduce import FlattenTaskSetup, map_edges
from backends.agl.flat.reader import GraphFeatureReader
from backends.agl.flat.sampling_strategy import parse_sampling
from backends.agl.flat.shards import Totals
from backends.agl.flat.source import Source
from backends.agl.graphfeature import decode
from backends.parallel.executor import InlineExecutor
from datasets.csr import csr_from_edges
from datasets.graph import Graph
from tests.backends.agl.flat.test_job import everything
from tests.backends.agl.flat.test_local import REPLACING, STRATEGIES, strings_of
from tests.graphs import awkward_graph


def by_tasks(folder, graph, strategy, reducers, threshold, targets=None, filtering=None, executor=None, at_once=99):
    """Strings of all targets, and the reducers' loads."""
    edges = Source.build(graph, strategy, filtering, folder / "source").table.csr.nnz
    (folder / "shards").mkdir(exist_ok=True)
    plan = FlattenTaskSetup(folder / "source", strategy, graph.nodes, edges, reducers, threshold, "this job")
    targets = np.arange(graph.nodes) if targets is None else targets
    rounds, totals = FlattenRounds(executor or InlineExecutor(), folder, plan, at_once), Totals()
    loads = rounds.run(targets, 16, True, totals)
    reader = object.__new__(GraphFeatureReader)
    reader.shards, reader.bytes_read = sorted((folder / "shards").glob("part-*.parquet")), 0
    reader.folder, reader.manifest = folder, {"identity": "this job"}
    assert totals.sizes.records == len(targets)
    return [bytes(string) for number in range(totals.shards) for string in reader.strings(number).split()], loads


@settings(max_examples=25, deadline=None)
@given(
    st.sampled_from(STRATEGIES + REPLACING),
    st.integers(1, 5),
    st.sampled_from([None, 0, 5, 30]),
    st.integers(1, 3),
    st.sampled_from(["node", "target"]),
    st.sampled_from([1, 2, 99]),
)
def test_bytes_are_those_of_the_local_engine(tmp_path_factory, text, reducers, threshold, hops, scope, at_once):
    graph, strategy = awkward_graph(2, weighted=True), parse_sampling(text.split(";")[0], hops, scope, seed=9)
    whole = strings_of(graph, strategy, tmp_path_factory.mktemp("local"))
    folder = tmp_path_factory.mktemp("tasks")
    strings, loads = by_tasks(folder, graph, strategy, reducers, threshold, at_once=at_once)
    assert strings == whole
    is_mapped = scope == "node" and strategy.method == "topk"
    answered = sum(len(decode([string]).edge_ids) for string in strings)
    assert sum(loads) == (graph.csr.nnz if is_mapped else answered)


@pytest.mark.parametrize(
    ("sampling", "batches"),
    [("full()", [1, 1, 2, 4, 8]), ("topk(500)", [1, 1, 2, 4, 8]), ("uniform(limit=7, replacement=true)", [8, 8])],
)
def test_batches_are_those_of_the_local_engine_and_hold_one_giant_at_most(tmp_path, monkeypatch, sampling, batches):
    sources = np.concatenate((np.arange(16, 216), np.full(14, 16)))
    destinations = np.concatenate((np.repeat([0, 1], 100), np.arange(2, 16)))  # targets 0 and 1 have 100 in-edges each
    csr, weights = csr_from_edges(sources, destinations, (216, 216)), np.ones(214, np.float32)
    graph = Graph("giants", csr, features=np.ones((216, 1), np.float32), edge_weights=weights)
    strategy, targets = parse_sampling(sampling, 2), np.arange(16)
    source = Source.build(graph, strategy, None, tmp_path / "local")
    monkeypatch.setattr(drivers, "MOST_BYTES", drivers.bytes_of(110, source))
    assert [len(batch.records) for batch in flatten_batches(source, targets, strategy)] == batches
    by_tasks(tmp_path, graph, strategy, 3, 5, targets)
    shard = parquet.ParquetFile(tmp_path / "shards" / "part-00000.parquet").metadata
    assert [shard.row_group(number).num_rows for number in range(shard.num_row_groups)] == batches


@pytest.mark.parametrize("sampling", ["weighted(2)", "topk(2)"])
def test_a_filter_reaches_the_tasks(tmp_path, sampling):
    graph, strategy, text = awkward_graph(2, weighted=True), parse_sampling(sampling, 2), "weight > 1.0"
    (tmp_path / "local").mkdir()
    whole = strings_of(graph, strategy, tmp_path / "local", filtering=text)
    assert by_tasks(tmp_path, graph, strategy, 3, 5, filtering=text)[0] == whole


class Watched(InlineExecutor):
    """Records the most bytes that a task's arrays take beside its arguments."""

    def __init__(self):
        self.most = 0

    def submit(self, results, task, *arguments):
        tracemalloc.reset_peak()
        before = tracemalloc.get_traced_memory()[0]
        outputs = super().submit(results, task, *arguments)
        self.most = max(self.most, tracemalloc.get_traced_memory()[1] - before)
        return outputs


def test_a_task_takes_the_less_memory_the_more_partitions_there_are(tmp_path):
    random, nodes = np.random.default_rng(0), 2000
    csr = csr_from_edges(*random.integers(0, nodes, (2, 10 * nodes)), (nodes, nodes))
    graph = Graph("even", csr, features=random.normal(size=(nodes, 3)).astype(np.float32))
    most = {}
    for partitions in (2, 1, 8):  # the first one pays what is loaded once
        (folder := tmp_path / str(partitions)).mkdir()
        tracemalloc.start()
        by_tasks(folder, graph, parse_sampling("uniform(4)", 2), partitions, None, executor=(watched := Watched()))
        tracemalloc.stop()
        most[partitions] = watched.most
    assert most[8] < most[1] / 3, most


def hub_graph() -> Graph:
    """2,000 nodes of 10 in-edges each, and a hub with 20,000."""
    random = np.random.default_rng(0)
    destinations = np.concatenate([np.repeat(np.arange(1, 2001), 10), np.zeros(20000, dtype=np.int64)])
    sources = (destinations + 1 + random.integers(0, 2000, len(destinations))) % 2001
    csr = csr_from_edges(sources, destinations, (2001, 2001))
    weights = random.uniform(0.5, 2, csr.nnz).astype(np.float32)
    return Graph("hub", csr, features=random.normal(size=(2001, 3)).astype(np.float32), edge_weights=weights)


def test_map_takes_memory_by_its_edges_not_by_the_nodes_of_the_graph(tmp_path):
    graph, strategy = awkward_graph(1, nodes=200_000, edges=10, weighted=True), parse_sampling("topk(2)", 2)
    edges = Source.build(graph, strategy, None, tmp_path).table.csr.nnz
    setup = FlattenTaskSetup(tmp_path, strategy, graph.nodes, edges, 2, 50)
    map_edges(setup, 0, 5)
    tracemalloc.start()
    parts = map_edges(setup, 0, 5)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < graph.nodes and sum(len(part.ids) for part in parts) <= 5


def test_re_indexing_balances_the_reducers_and_changes_nothing(tmp_path):
    graph, strategy, some = hub_graph(), parse_sampling("topk(5)", 2), np.array([0, 1, 2])
    (tmp_path / "with").mkdir(), (tmp_path / "without").mkdir()
    plain, skewed = by_tasks(tmp_path / "without", graph, strategy, 4, None, some)
    spread, even = by_tasks(tmp_path / "with", graph, strategy, 4, 1000, some)
    assert plain == spread
    mean = graph.csr.nnz / 4
    assert max(skewed) > 2 * mean and max(even) < 1.1 * mean


@pytest.mark.parametrize(
    ("sampler", "scope"),
    [("full()", "node"), ("uniform(500);uniform(500)", "target"), ("uniform(500)", "node"), ("weighted(500)", "node")],
)
def test_requests_for_a_hub_that_draw_for_themselves_are_spread(tmp_path, sampler, scope):
    targets, others = np.arange(1, 401), np.arange(401, 2401)
    sources, destinations = np.concatenate([0 * targets, others]), np.concatenate([targets, 0 * others])
    csr, weights = csr_from_edges(sources, destinations, (2401, 2401)), np.ones(2400, np.float32)
    graph = Graph("hub", csr, features=np.ones((2401, 1), np.float32), edge_weights=weights)
    loads = by_tasks(tmp_path, graph, parse_sampling(sampler, 2, scope), 4, None, targets)[1]
    assert sum(loads) == 400 * (1 + (2000 if sampler == "full()" else 500))
    assert max(loads) < 1.25 * sum(loads) / 4, loads


class Largest(InlineExecutor):
    """Records the most results of a task, and how many of them it is given."""

    def __init__(self):
        self.most = 0

    def submit(self, results, task, *arguments):
        self.most = max(self.most, results, len(arguments))
        return super().submit(results, task, *arguments)


@pytest.mark.parametrize("sampling", ["uniform(3)", "topk(3)"])
def test_pieces_grow_with_the_shards_at_once_not_with_all(tmp_path, sampling):
    graph, strategy = awkward_graph(2, nodes=1600, edges=100, weighted=True), parse_sampling(sampling, 2)
    by_tasks(tmp_path, graph, strategy, 3, 5, executor=(executor := Largest()), at_once=7)
    assert len(list((tmp_path / "shards").iterdir())) == 100 and executor.most <= 9


class Killed(InlineExecutor):
    """Dies after some tasks."""

    def __init__(self, after=10**9):
        self.left, self.calls = after, 0

    def submit(self, results, task, *arguments):
        if self.left == 0:
            raise KeyboardInterrupt
        self.left, self.calls = self.left - 1, self.calls + 1
        return super().submit(results, task, *arguments)


@pytest.mark.parametrize("after", [1, 21, 22, 23])
def test_a_killed_run_goes_on_after_its_shards(tmp_path, after):
    graph, strategy = awkward_graph(2, weighted=True), parse_sampling("topk(3)", 2)
    (tmp_path / "local").mkdir()
    whole = strings_of(graph, strategy, tmp_path / "local")
    with pytest.raises(KeyboardInterrupt):
        by_tasks(tmp_path, graph, strategy, 3, 5, executor=Killed(after))
    done = {path: path.stat().st_mtime_ns for path in (tmp_path / "shards").iterdir()}
    assert len(done) == max(0, after - 21)
    again = Killed()
    assert by_tasks(tmp_path, graph, strategy, 3, 5, executor=again)[0] == whole
    assert again.calls == 21 + len(list((tmp_path / "shards").iterdir())) - len(done)
    assert {path: path.stat().st_mtime_ns for path in done} == done


@pytest.mark.needs_ray
def test_ray_writes_what_the_local_engine_writes(tmp_path):
    graph, strategy = awkward_graph(2, weighted=True), parse_sampling("uniform(4);uniform(2)", 2)
    targets = nodes_to_flatten(graph, "all")
    flatten_to(tmp_path / "local", graph, targets, FlattenJob(strategy, shard_records=16))
    job = FlattenJob(strategy, shard_records=16, run_on="ray", partitions=3, hub_threshold=5)
    manifest = flatten_to(tmp_path / "ray", graph, targets, job)
    assert everything(tmp_path / "ray") == everything(tmp_path / "local")
    assert len(manifest["reducer_loads"]) == 3 and sum(manifest["reducer_loads"]) == manifest["sizes"]["edges"]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["local", "ray"]


def die_once(folder, *parts):
    """End the worker's process at its first try."""
    marker = folder / "died"
    if not marker.exists():
        marker.touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return [sum(parts)]


def die_first(marker, late, task, *arguments):
    """End the worker's process at its first try, before or after the task is done."""
    results = task(*arguments) if late or marker.exists() else []
    if not marker.exists():
        marker.touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return results


class Dying:
    """Ray, whose worker is killed in every fifth task, in turns before and after the work."""

    def __init__(self, executor, folder):
        self.executor, self.folder, self.calls = executor, folder, 0
        self.put, self.get = executor.put, executor.get

    def submit(self, results, task, *arguments):
        self.calls += 1
        if self.calls % 5:
            return self.executor.submit(results, task, *arguments)
        marker = self.folder / f"died-{self.calls}"
        return self.executor.submit(results, die_first, marker, self.calls % 2 == 0, task, *arguments)


@pytest.mark.needs_ray
def test_killed_workers_change_no_byte(tmp_path):
    from backends.parallel import ray_cluster as cluster
    from backends.parallel.executor import RayExecutor

    graph, strategy = awkward_graph(2, weighted=True), parse_sampling("topk(4);topk(2)", 2)
    for name in ("local", "tasks", "died"):
        (tmp_path / name).mkdir()
    ray = cluster.acquire()
    try:
        executor = Dying(RayExecutor(ray), tmp_path / "died")
        strings, _ = by_tasks(tmp_path / "tasks", graph, strategy, 3, 5, executor=executor)
    finally:
        cluster.release()
    assert strings == strings_of(graph, strategy, tmp_path / "local")
    assert len(list((tmp_path / "died").iterdir())) == executor.calls // 5 >= 4


def fail(folder):
    """Find the disk full."""
    raise OSError(28, "No space left on device", str(folder))


@pytest.mark.needs_ray
def test_an_error_in_a_task_is_raised_unchanged(tmp_path):
    from backends.parallel import ray_cluster as cluster
    from backends.parallel.executor import RayExecutor

    ray = cluster.acquire()
    try:
        executor = RayExecutor(ray)
        with pytest.raises(OSError, match=rf"^\[Errno 28\] No space left on device: '{tmp_path}'$"):
            executor.get(executor.submit(1, fail, tmp_path))
    finally:
        cluster.release()


@pytest.mark.needs_ray
def test_a_task_whose_worker_is_killed_runs_again(tmp_path):
    from backends.parallel import ray_cluster as cluster
    from backends.parallel.executor import RayExecutor

    ray = cluster.acquire()
    try:
        executor = RayExecutor(ray)
        (handle,) = executor.submit(1, die_once, tmp_path, executor.put(2), 3)
        assert executor.get([handle]) == [5] and (tmp_path / "died").exists()
    finally:
        cluster.release()


def die(folder):
    """End the worker's process at every try."""
    os.kill(os.getpid(), signal.SIGKILL)


def fail_unreadably(folder):
    """Raise an error that cannot be sent to another process."""
    error = ValueError("a table of locks")
    error.lock = threading.Lock()
    raise error


def read(*parts):
    """Read the results of other tasks."""
    return [parts]


@pytest.mark.needs_ray
@pytest.mark.parametrize("task", [die, fail_unreadably])
def test_a_task_that_ray_gives_up_on_is_told_alike_by_itself_and_by_those_that_read_it(tmp_path, task):
    from backends.parallel import ray_cluster as cluster
    from backends.parallel.executor import RayExecutor

    ray = cluster.acquire()
    try:
        executor = RayExecutor(ray)
        (handle,) = executor.submit(1, task, tmp_path)
        (behind,) = executor.submit(1, read, handle, 3)
        for result in (handle, behind):
            with pytest.raises(ChildProcessError, match=r"^Ray gave up on a task: repeat the command, which resumes"):
                executor.get([result])
    finally:
        cluster.release()
