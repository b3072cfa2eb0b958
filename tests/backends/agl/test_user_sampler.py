"""A user's sampler, named by its import path, draws the same edges in every process and every part of AGL."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet

from backends import kernels
from backends.agl.flat import __main__ as flat
from backends.agl.flat.job import FlattenJob, check_columns
from backends.agl.flat.sampling_strategy import SamplingStrategy, StrategyError, parse_sampling
from backends.agl.infer import __main__ as infer
from backends.agl.train import __main__ as train
from backends.kernels import SAMPLERS, EdgeSampler, sample_neighbors
from tests.backends.agl.chain import EDGES, tables
from tests.graphs import awkward_graph

ROOT = Path(kernels.__file__).resolve().parents[2]
SAMPLER = """from backends.kernels import EdgeSampler

lightest = EdgeSampler(lambda hashes, weight: weight, needs_weight=True)
"""
OWN = "mine.lightest(by=weight, limit=3)"
BUILT_IN = "topk(by=weight, limit=3, reverse=true)"


def run(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run one of AGL's commands in a folder, as a user does."""
    command = [sys.executable, "-m", f"backends.agl.{arguments[0]}", *arguments[1:]]
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True)


def shards_of(folder: Path) -> list[pa.Table]:
    """Rows of all shards, in order, without the names of the runs that wrote them."""
    return [parquet.read_table(path) for path in sorted(folder.glob("part-*.parquet"))]


@pytest.mark.parametrize("run_on", ["local", pytest.param("ray", marks=pytest.mark.needs_ray)])
def test_it_draws_in_every_process(tmp_path, run_on):
    (tmp_path / "mine.py").write_text(SAMPLER)
    read = [*tables(tmp_path), "--split", "0.8,0.1,0.1", "-h", "2"]
    for name, sampling, engine in (("own", OWN, run_on), ("known", BUILT_IN, "local")):
        options = ["-s", sampling, "-o", name, "--run-on", engine]
        done = run(tmp_path, "flat", *read, *options, *(["--hub-threshold", "2"] if engine == "ray" else []))
        assert done.returncode == 0, done.stderr
    assert shards_of(tmp_path / "own") == shards_of(tmp_path / "known")
    trained = run(tmp_path, "train", "-m", "gcn", "-i", "own", "-o", "model.safetensors", "-c", "epochs=1")
    assert trained.returncode == 0, trained.stderr
    scores = []
    for name, engine in (("rounds", run_on), ("hoods", "local")):
        infer = "graphinfer" if name == "rounds" else "neighbourhood"
        options = ["-o", name, "-c", f"run_on={engine}", f"infer={infer}"]
        options += ["hub_threshold=2"] if engine == "ray" else []
        done = run(tmp_path, "infer", "-m", "model.safetensors", *read[:4], *options)
        assert done.returncode == 0, done.stderr
        scores.append(np.load(tmp_path / name / "scores.npy"))
    np.testing.assert_allclose(*scores, atol=1e-5)


@pytest.mark.parametrize(
    ("sampling", "message"),
    [
        ("other.lightest(3)", "sampler='other.lightest' cannot be imported: No module named 'other'"),
        ("mine.heaviest(3)", "cannot be imported: module 'mine' has no attribute 'heaviest'"),
        ("mine.EdgeSampler(3)", "sampler='mine.EdgeSampler' is a type: give an EdgeSampler"),
        ("mine.lightest(3, replacement=true)", "mine.lightest cannot draw with replacement"),
        ("heaviest(3)", "sampler 'heaviest(3)' is unknown: allowed are uniform"),
    ],
)
def test_one_that_cannot_be_used_is_refused(tmp_path, sampling, message):
    (tmp_path / "mine.py").write_text(SAMPLER)
    done = run(tmp_path, "flat", *tables(tmp_path), "-h", "2", "-s", sampling, "--targets", "all", "-o", "flat")
    assert done.returncode == 2 and message in done.stderr, done.stderr
    assert not (tmp_path / "flat").exists()


@pytest.fixture
def own_module(tmp_path, monkeypatch):
    """Write a user's module of the name ``own_sampler`` and forget it, with its samplers, in the end."""
    monkeypatch.syspath_prepend(tmp_path)
    yield lambda code: (tmp_path / "own_sampler.py").write_text("from backends.kernels import EdgeSampler\n" + code)
    sys.modules.pop("own_sampler", None)
    for name in [name for name in SAMPLERS if name.startswith("own_sampler.")]:
        del SAMPLERS[name]


@pytest.mark.parametrize(
    ("code", "message"),
    [
        ("newest = (\n", r"'own_sampler.newest' cannot be imported: SyntaxError: .*own_sampler.py, line 2"),
        ("\nnewest = Newest()\n", r"cannot be imported: .*own_sampler.py, line 3: NameError: name 'Newest'"),
        ("raise SystemExit(3)\n", "cannot be imported: .*line 2: SystemExit: 3"),
        ("newest = EdgeSampler(lambda hashes: hashes)\n", "fails for 5 edges: TypeError: .* takes 1 positional"),
        ("newest = EdgeSampler(lambda hashes, weight: 1 // 0)\n", "fails for 5 edges: .*line 2: ZeroDivisionError"),
        ("newest = EdgeSampler(lambda hashes, weight: weight / weight.max())\n", "fails for 0 edges: .*zero-size"),
        ("newest = EdgeSampler(lambda hashes, weight: weight[1:])\n", r"shape \(4,\) for 5 edges: give a number"),
        ("newest = EdgeSampler(lambda hashes, weight: 1.0)\n", r"shape \(\) for 5 edges: give a number"),
        ("newest = EdgeSampler(lambda hashes, weight: hashes.astype(str))\n", "returns <U.* give a number for each"),
    ],
    ids=["syntax", "name", "exit", "arguments", "error", "no edges", "length", "one", "text"],
)
def test_one_that_fails_is_refused_before_anything_is_read_and_by_inference(
    own_module, code, message, tmp_path, capsys
):
    own_module(code)
    nowhere = ["-n", str(tmp_path / "nodes.parquet"), "-e", str(tmp_path / "edges.parquet")]
    assert flat.main([*nowhere, "-h", "2", "-s", "own_sampler.newest(3)", "-o", str(tmp_path / "flat")]) == 2
    assert re.search(message, capsys.readouterr().err)
    with pytest.raises(StrategyError, match=message):
        check_columns(awkward_graph(1), SamplingStrategy((3,), "own_sampler.newest"), None)


RANKED = """import numpy as np
from backends.kernels import EdgeSampler

RANKS = np.arange(3)
lightest = EdgeSampler(
    lambda hashes, weight: RANKS[weight.astype(int)] if WHERE else weight,
    needs_weight=True,
)
"""
COMMANDS = {
    "local": [
        ["flat", "TABLES", "--split", "0.8,0.1,0.1", "-h", "2", "-s", OWN, "-o", "other"],
        ["train", "-m", "gcn", "-i", "own", "-o", "other.safetensors", "-c", "epochs=1", "source=graph"],
        ["train", "-m", "gcn", "-i", "own", "-o", "other.safetensors", "-t", "sync", "-c", "workers=2", "source=graph"],
        ["infer", "-m", "model.safetensors", "TABLES", "-o", "other"],
        ["infer", "-m", "model.safetensors", "TABLES", "-o", "other", "-c", "infer=neighbourhood"],
    ],
    "ray": [
        ["flat", "TABLES", "--split", "0.8,0.1,0.1", "-h", "2", "-s", OWN, "-o", "other", "--run-on", "ray"],
        ["infer", "-m", "model.safetensors", "TABLES", "-o", "other", "-c", "run_on=ray", "partitions=2"],
    ],
}


@pytest.mark.parametrize("run_on", ["local", pytest.param("ray", marks=pytest.mark.needs_ray)])
def test_one_that_fails_on_the_data_alone_is_told_in_one_sentence(tmp_path, monkeypatch, run_on):
    where = "'FAILS' in __import__('os').environ"
    if run_on == "ray":  # the estimate of GraphFlat samples before Ray is there
        where += " and __import__('ray').is_initialized()"
    (tmp_path / "mine.py").write_text(RANKED.replace("WHERE", where))
    heavy = tables(tmp_path, edges=EDGES | {"weight": EDGES["weight"] * 9})
    read = [*heavy, "--split", "0.8,0.1,0.1", "-h", "2", "-s", OWN, "--keep-graph", "--shard-records", "20"]
    assert run(tmp_path, "flat", *read, "-o", "own").returncode == 0
    trained = run(tmp_path, "train", "-m", "gcn", "-i", "own", "-o", "model.safetensors", "-c", "epochs=1")
    assert trained.returncode == 0, trained.stderr
    monkeypatch.setenv("FAILS", "true")
    for command in COMMANDS[run_on]:
        done = run(tmp_path, *(word for part in command for word in (heavy if part == "TABLES" else [part])))
        error = done.stderr.partition("error: ")[2]
        assert done.returncode == 2 and error.count("\n") == 1 and "Traceback" not in done.stderr, done.stderr
        assert re.match(r"sampler='mine.lightest' fails for \d+ edges: .*mine.py, line 6: IndexError: index", error)
        assert not (tmp_path / "other").exists() and not (tmp_path / "other.safetensors").exists()


@pytest.mark.parametrize("by_place", [False, True])
def test_one_that_returns_too_few_keys_for_many_edges_is_refused(monkeypatch, by_place):
    monkeypatch.setitem(SAMPLERS, "short", EdgeSampler(lambda hashes, weight: weight[:5], by_place=by_place))
    graph = awkward_graph(1)
    with pytest.raises(ValueError, match=rf"sampler='short' returns float64 of shape \(5,\) for {graph.csr.nnz} edges"):
        sample_neighbors(graph.csr, np.arange(graph.nodes), 3, sampler="short")


def test_one_that_wants_too_much_memory_is_no_wrong_argument(monkeypatch):
    monkeypatch.setitem(SAMPLERS, "large", EdgeSampler(lambda hashes, weight: np.zeros(1 << 50)))
    with pytest.raises(MemoryError):
        sample_neighbors(awkward_graph(1).csr, np.arange(9), 3, sampler="large")


@pytest.mark.parametrize("sampling", ["..x(3)", ".own_sampler.newest(3)"])
def test_a_path_that_python_does_not_import_is_refused(sampling):
    with pytest.raises(StrategyError, match="cannot be imported: TypeError"):
        parse_sampling(sampling, 2)


def test_samples_of_two_versions_of_its_file_are_not_mixed(own_module, tmp_path, capsys):
    code, graph = "newest = EdgeSampler(lambda hashes, weight: -weight, needs_weight=True)\n", awkward_graph(1)
    own_module(code)
    files, model = tables(tmp_path), str(tmp_path / "model.safetensors")
    read = [*files, "--split", "0.8,0.1,0.1", "-h", "2", "-s", "own_sampler.newest(3)"]
    assert flat.main([*read, "--keep-graph", "-o", str(tmp_path / "flat")]) == 0
    shards = ["-m", "gcn", "-i", str(tmp_path / "flat")]
    assert train.main([*shards, "-o", model, "-c", "epochs=1"]) == 0
    identities = {FlattenJob(parse_sampling(read[-1], 2)).identity(graph, np.arange(9))}
    own_module(code.replace("-weight", "weight"))
    identities.add(FlattenJob(parse_sampling(read[-1], 2)).identity(graph, np.arange(9)))
    assert len(identities) == 2, "an interrupted run begins again"
    assert flat.main([*read, "-o", str(tmp_path / "other")]) == 0
    from_memory = [*shards, "-o", str(tmp_path / "other.safetensors"), "-c", "epochs=1", "source=graph"]
    scored = ["-m", model, "-o", str(tmp_path / "scores")]
    for command, arguments in (
        (train, from_memory),
        (infer, [*scored, *files]),
        (infer, [*scored, "-i", str(tmp_path / "other")]),
    ):
        capsys.readouterr()
        assert command.main(arguments) == 2
        assert "the file of sampler own_sampler.newest changed, from SHA-256" in capsys.readouterr().err
    manifest = tmp_path / "flat" / "manifest.json"
    facts = json.loads(manifest.read_text())
    del facts["strategy"]["sha256"]  # as an earlier version wrote it
    manifest.write_text(json.dumps(facts))
    assert train.main(from_memory) == 0


def test_one_that_ranks_edges_is_tried_and_used(own_module):
    own_module("newest = EdgeSampler(lambda hashes, weight: -weight, needs_weight=True)\n")
    assert parse_sampling("own_sampler.newest(3)", 2).by == "weight"


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ("np.random.random(len(hashes))", "another key in each call: compute it from the edge's hash and weight alone"),
        ("np.random.default_rng(0).random(len(hashes))", "another key beside other edges: compute it from"),
        ("np.argsort(np.argsort(weight))", "another key beside other edges: compute it from"),
        ("weight / weight.sum()", "another key beside other edges: compute it from"),
    ],
    ids=["random", "random from a seed", "ranks", "shares"],
)
def test_one_whose_keys_depend_on_the_call_is_refused(own_module, keys, message):
    own_module(f"import numpy as np\nnewest = EdgeSampler(lambda hashes, weight: {keys})\n")
    with pytest.raises(StrategyError, match=f"sampler='own_sampler.newest' gives an edge {message}"):
        parse_sampling("own_sampler.newest(3)", 2)


@pytest.mark.parametrize(
    "keys",
    ["hashes", "hashes % 7 == 0", "np.where(hashes % 2 == 0, np.nan, weight)", "[-one for one in weight]"],
    ids=["hashes", "booleans", "not numbers", "a list"],
)
def test_one_whose_keys_are_of_each_edge_alone_is_used(own_module, keys):
    own_module(f"import numpy as np\nnewest = EdgeSampler(lambda hashes, weight: {keys})\n")
    assert parse_sampling("own_sampler.newest(3)", 2).method == "own_sampler.newest"
