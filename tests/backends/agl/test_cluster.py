"""GraphFlat and GraphInfer on a running Ray cluster of two machines with separate folders and a shared store."""

import os
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet

from backends.agl import cluster as clusters
from backends.agl.flat import __main__ as flat
from backends.agl.flat.sampling_strategy import parse_sampling
from backends.agl.flat.source import Source
from backends.agl.infer import __main__ as infer
from backends.agl.train import __main__ as train
from backends.parallel import ray_cluster
from backends.places import holds, mirrored, remove_mirror
from datasets.graph import SPLITS
from datasets.synthetic.uug import load
from tests.graphs import awkward_graph

pytestmark = pytest.mark.needs_ray


@pytest.fixture(scope="module")
def tables(tmp_path_factory):
    """Options that name two tables, of 3,000 nodes; their graph has hubs."""
    folder = tmp_path_factory.mktemp("tables")
    graph = load("uug", {"nodes": 3000, "features": 16})
    names = {number: name for name, number in SPLITS.items()}
    nodes = {"id": range(graph.nodes), "features": list(graph.features), "split": [names.get(n) for n in graph.split]}
    labels = [int(label) if label >= 0 else None for label in graph.labels]
    parquet.write_table(pa.table(nodes | {"label": labels}), folder / "nodes.parquet")
    edges = {"source": graph.csr.indices, "target": graph.csr.destinations}
    parquet.write_table(pa.table(edges), folder / "edges.parquet")
    return ["-n", str(folder / "nodes.parquet"), "-e", str(folder / "edges.parquet")]


@pytest.fixture
def machines():
    """Two Ray nodes of one core, each with a folder for temporary files of its own."""
    from ray.cluster_utils import Cluster

    with tempfile.TemporaryDirectory(prefix="two-") as name:
        folders = [Path(name) / one for one in "ab"]
        for folder in folders:
            folder.mkdir()
        cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 1, "env_vars": {"TMPDIR": str(folders[0])}})
        second = cluster.add_node(num_cpus=1, env_vars={"TMPDIR": str(folders[1])})
        cluster.wait_for_nodes()
        yield cluster, second, folders
        cluster.shutdown()


def run(name: str, temporary: Path, *arguments: str) -> None:
    """Run one of AGL's commands in a process of its own, as the cluster belongs to this one."""
    temporary.mkdir(exist_ok=True)
    command = [sys.executable, "-m", f"backends.agl.{name}", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, env=os.environ | {"TMPDIR": str(temporary)})
    assert done.returncode == 0, done.stderr


def kill_when_it_works(cluster, node, folder):
    """Kill a node as soon as it has fetched the graph, that is while it runs its first tasks."""

    def watch():
        deadline = time.monotonic() + 60
        while not list(folder.glob("agl-mirror-*/.complete")) and time.monotonic() < deadline:
            time.sleep(0.01)
        cluster.remove_node(node, allow_graceful=False)

    thread = threading.Thread(target=watch)
    thread.start()
    return thread


@pytest.mark.parametrize("killed", [False, True], ids=["both", "one killed"])
def test_bytes_and_scores_are_those_of_one_machine(tables, machines, tmp_path, killed):
    cluster, second, folders = machines
    store = f"file://{tmp_path}/store"
    options = [*tables, "-h", "2", "-s", "uniform(5);uniform(3)", "--shard-records", "50"]
    assert flat.main([*options, "-o", str(tmp_path / "local")]) == 0
    model = str(tmp_path / "model.safetensors")
    assert train.main(["-m", "gcn", "-i", str(tmp_path / "local"), "-o", model, "-c", "epochs=1", "hidden=8"]) == 0
    assert infer.main(["-m", model, *tables, "-o", str(tmp_path / "scores"), "-c", "partitions=6"]) == 0
    joined = ["--run-on", "ray", "--address", cluster.address, "--store", store, "--partitions", "6"]
    watch = kill_when_it_works(cluster, second, folders[1]) if killed else None
    driver = tmp_path / "driver"
    run("flat", driver, *options, *joined, "-o", str(tmp_path / "flat"))
    for shard in (tmp_path / "local").glob("part-*.parquet"):
        assert (tmp_path / "flat" / shard.name).read_bytes() == shard.read_bytes()
    if watch is not None:
        watch.join()
        second = cluster.add_node(num_cpus=1, env_vars={"TMPDIR": str(folders[1])})
        cluster.wait_for_nodes()
        for mirror in folders[1].glob("agl-mirror-*/.complete"):
            mirror.unlink()
        watch = kill_when_it_works(cluster, second, folders[1])
    settings = ["run_on=ray", f"address={cluster.address}", f"store={store}", "partitions=6"]
    run("infer", driver, "-m", model, *tables, "-o", str(tmp_path / "joined"), "-c", *settings)
    if watch is not None:
        watch.join()
    scores = [np.load(tmp_path / name / "scores.npy") for name in ("scores", "joined")]
    np.testing.assert_allclose(*scores, atol=1e-6)
    assert not list((tmp_path / "store").glob("*")) and not list(folders[0].glob("agl-mirror-*"))
    assert not list(driver.iterdir())  # it has the graph, and needs no copy of it
    assert killed or not list(folders[1].glob("agl-mirror-*"))


def test_a_machine_without_this_code_is_refused(tables, tmp_path):
    from ray.cluster_utils import Cluster

    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 1})
    try:
        hidden = {"PYTHONPATH": "", "PYTHONNOUSERSITE": "1"}
        (tmp_path / "site").mkdir()
        (tmp_path / "site" / "sitecustomize.py").write_text("import sys\nsys.modules['backends'] = None\n")
        cluster.add_node(num_cpus=1, env_vars=hidden | {"PYTHONPATH": str(tmp_path / "site")})
        cluster.wait_for_nodes()
        joined = ["--run-on", "ray", "--address", cluster.address, "--store", f"file://{tmp_path}/store"]
        command = [sys.executable, "-m", "backends.agl.flat", *tables, "-h", "1", "-o", str(tmp_path / "flat"), *joined]
        done = subprocess.run(command, capture_output=True, text=True)
        assert done.returncode == 2 and "a machine of the cluster cannot run this code" in done.stderr, done.stderr
        assert not (tmp_path / "store").exists() and not (tmp_path / "flat").exists()
    finally:
        cluster.shutdown()


@pytest.mark.parametrize("error", [ValueError, OSError], ids=["refused", "failed"])
def test_a_run_that_is_refused_leaves_nothing_in_the_store_and_one_that_fails_its_graph(tmp_path, error):
    source, joined = tmp_path / "source", clusters.Cluster(store=f"file://{tmp_path}/store")
    Source.build(awkward_graph(1), parse_sampling("full()", 1), None, source)
    ray, place = ray_cluster.acquire(), joined.place_of(source, "identity")
    try:
        with pytest.raises(error, match="no record"), joined.publishing(ray, source, "identity"):
            mirror = mirrored(f"{place}/source")
            raise error("no record")
        assert [holds(place), mirror.exists()] == [error is OSError] * 2
    finally:
        remove_mirror(f"{place}/source")
        ray_cluster.release()


@pytest.mark.parametrize("command", ["flat", "infer"])
def test_an_address_that_does_not_answer_is_named_and_leaves_nothing(tables, tmp_path, command, capsys):
    store, address = f"file://{tmp_path}/store", "127.0.0.1:9"
    shards = [*tables, "-h", "1", "-o", str(tmp_path / "flat")]
    assert flat.main(shards) == 0
    model = str(tmp_path / "model.safetensors")
    assert train.main(["-m", "gcn", "-i", str(tmp_path / "flat"), "-o", model, "-c", "epochs=1", "hidden=2"]) == 0
    capsys.readouterr()
    if command == "flat":
        joined = ["--run-on", "ray", "--address", address, "--store", store]
        assert flat.main([*shards[:-1], str(tmp_path / "other"), *joined]) == 1
    else:
        settings = ["run_on=ray", f"address={address}", f"store={store}"]
        assert infer.main(["-m", model, *tables, "-o", str(tmp_path / "other"), "-c", *settings]) == 1
    error = capsys.readouterr().err
    assert "no Ray cluster answers at 127.0.0.1:9" in error and error.count("\n") == 1, error
    assert not (tmp_path / "other" / "scores.npy").exists() and not (tmp_path / "other" / "manifest.json").exists()
    assert not (tmp_path / "store").exists()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--address", "a:1"], "is not used with run_on=local: give run_on=ray"),
        (["--run-on", "ray", "--address", "a:1"], "give a store that all of them reach"),
        (["--run-on", "ray", "--store", "/tmp/x"], "store=/tmp/x is no URL"),
    ],
)
def test_half_a_cluster_is_refused(tables, tmp_path, options, message, capsys):
    assert flat.main([*tables, "-h", "1", "-o", str(tmp_path / "flat"), *options]) == 2
    assert message in capsys.readouterr().err
