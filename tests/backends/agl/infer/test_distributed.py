"""GraphInfer by pushing messages: the scores of the local engine, from tasks here or on Ray; hubs in pieces too."""

import itertools
import os
import subprocess
import sys
import tempfile
import time
import tracemalloc
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from backends.agl.cluster import Cluster
from backends.agl.flat.sampling_strategy import SamplingStrategy
from backends.agl.flat.source import Source
from backends.agl.infer import __main__ as commandline
from backends.agl.infer import job as job_module
from backends.agl.infer import mapreduce
from backends.agl.infer.drivers import InferenceRounds, infer_with_ray
from backends.agl.infer.job import InferenceJob, Workspace
from backends.agl.user_model import UserModelSpec
from backends.agl.user_trial import tried
from backends.parallel import ray_cluster as cluster
from backends.parallel.executor import InlineExecutor
from backends.progress import silent
from tests.backends.agl.chain import chain, scores_of
from tests.backends.agl.infer.test_infer import (
    MODELS,
    Killed,
    close,
    command_of,
    definition,
    inference,
    killed_in,
    model_on,
)
from tests.backends.agl.test_user_model import source_of
from tests.graphs import awkward_graph

EXECUTORS = ["inline", pytest.param("ray", marks=pytest.mark.needs_ray)]


@pytest.fixture(scope="module", params=EXECUTORS)
def infer(request):
    """Scores and facts of a job by tasks; one Ray for all tests here, as starting it takes seconds."""
    if request.param == "ray":
        cluster.acquire()
        yield partial(built_and_scored, lambda *arguments: infer_with_ray(*arguments, Cluster()))
        cluster.release()
    else:
        yield partial(built_and_scored, lambda *arguments: InferenceRounds(InlineExecutor(), *arguments).run())


def built_and_scored(score, job, hub, progress, space=None):
    """Build the table of the job's edges, as the command does, and score by it."""
    with tempfile.TemporaryDirectory() as folder:
        source = Source.build(job.graph, job.sampling, job.filtering, Path(folder))
        return score(replace(job, table=source.table), Path(folder), hub, progress, space)


@pytest.mark.parametrize("partitions", [1, 3])
@pytest.mark.parametrize("model", MODELS)
def test_pushed_messages_give_the_scores_of_the_full_forward_pass(infer, model, partitions):
    graph = awkward_graph(3, weighted=model == "gcn")
    spec, state = model_on(graph, model, 2, "linear")
    scores, facts = infer(InferenceJob(graph, spec, state, partitions=partitions), 0, silent)
    close(scores, definition(graph, spec, state))
    assert (facts["embeddings"], facts["rounds"]) == (80, 3)


@pytest.mark.parametrize(
    ("model", "sampler"), [("gcn", "topk"), ("gcn", "weighted"), ("sage", "uniform"), ("gat", "uniform")]
)
def test_sampled_with_hubs_in_pieces_and_few_targets_it_equals_the_local_engine(infer, tmp_path, model, sampler):
    graph = awkward_graph(3, weighted=model == "gcn")
    spec, state = model_on(graph, model, 2, fanouts=(4, 3))
    targets = np.array([9, 0, 30, 9])
    strategy = SamplingStrategy((4, 3), sampler, None if sampler == "uniform" else "weight", seed=5)
    job = InferenceJob(graph, spec, state, targets, strategy, partitions=3)
    expected = inference(tmp_path, graph, spec, state, targets=targets, strategy=strategy).run()
    plain, plain_facts = infer(job, 0, silent)
    pieces, facts = infer(job, 10, silent)
    close(plain, expected)
    np.testing.assert_array_equal(pieces, plain)
    assert plain_facts["hub_pieces"] == 0
    assert (facts["hub_pieces"] > 0) == (sampler == "topk") == (facts["largest_load"] < plain_facts["largest_load"])


@pytest.mark.parametrize("few", [[9, 30], [39]], ids=["two", "one without in-edges"])
def test_a_users_layer_and_head_get_one_row_or_more_in_every_partition(infer, tmp_path, few):
    code = source_of(
        send="h[:, :4].view(len(h), 2, -1)",  # torch refuses -1 for no rows
        receive="(h[:, :4].view(len(h), 2, -1) + edges.sum(sent.view(len(sent), 2, -1))).reshape(len(h), -1)",
        more="        self.head = lambda h: h.view(len(h), 4, -1)[:, :, 0]",
    )
    graph, targets = awkward_graph(3), np.array(few)
    spec = tried(UserModelSpec("net.py", 2, in_width=graph.width, hidden=4, classes=4, file="net.py", code=code))
    expected = inference(tmp_path, graph, spec, {}, targets=targets, partitions=8).run()
    scores, _ = infer(InferenceJob(graph, spec, {}, targets, partitions=8), 0, silent)
    close(scores, expected)


@pytest.mark.parametrize("engine", ["tasks", "local"])
@pytest.mark.parametrize("few", [None, np.array([9, 0, 30])], ids=["all", "few"])
def test_a_run_killed_in_a_round_goes_on_after_the_one_before_on_either_engine(infer, tmp_path, engine, few):
    graph = awkward_graph(3)
    spec, state = model_on(graph, "gat", 3, "linear")
    job = InferenceJob(graph, spec, state, few, partitions=3)
    with pytest.raises(Killed):
        infer(job, 0, killed_in("round 2"), Workspace(tmp_path, job.identity()))
    if engine == "local":
        left = inference(tmp_path, graph, spec, state, targets=few, partitions=2)
        scores, embeddings = left.run(), left.facts()["embeddings"]
    else:
        scores, facts = infer(job, 0, silent, Workspace(tmp_path, job.identity()))
        embeddings = facts["embeddings"]
    close(scores, definition(graph, spec, state)[slice(None) if few is None else few])
    assert embeddings == sum(graph.nodes if mask is None else mask.sum() for mask in job.needed[2:])


@settings(max_examples=40)
@given(st.integers(0, 9), st.integers(1, 12), st.lists(st.integers(1, 9), min_size=1, max_size=3),
       st.just("topk"))  # fmt: skip
def test_the_pieces_of_a_hub_merge_to_the_sample_of_the_whole(seed, threshold, fanouts, sampler):
    graph = awkward_graph(seed, weighted=True)
    strategy = SamplingStrategy(tuple(fanouts), sampler, "weight", seed=seed)
    job = InferenceJob(graph, *model_on(graph, "gcn", len(fanouts), fanouts=tuple(fanouts)), strategy=strategy)
    pieces = mapreduce.hub_pieces(job, threshold)
    drawn = mapreduce.merge_samples(job, pieces, [mapreduce.sample_piece(job, piece) for piece in pieces])
    every = InferenceJob(graph, job.spec, job.state, strategy=strategy, hubs=drawn)
    for layer, step in itertools.product(range(len(fanouts)), (1, 3)):
        expected, at = job.in_edges(np.arange(graph.nodes)[::step], layer)
        actual, there = every.in_edges(np.arange(graph.nodes)[::step], layer)
        np.testing.assert_array_equal(actual.indptr, expected.indptr)
        np.testing.assert_array_equal(there, at)


def test_a_piece_of_a_hub_reads_its_own_edges_alone():
    graph, threshold = awkward_graph(0, edges=400_000, weighted=True), 100
    strategy = SamplingStrategy((5,), "topk", "weight")
    job = InferenceJob(graph, *model_on(graph, "gcn", 1, fanouts=(5,)), strategy=strategy)
    pieces = mapreduce.hub_pieces(job, threshold)
    tracemalloc.start()
    sampled = mapreduce.sample_piece(job, pieces[1])
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 1000 * threshold and len(sampled) == 5


@pytest.mark.needs_ray
def test_a_process_that_used_ray_leaves_no_process_and_no_file(tmp_path):
    graph = awkward_graph(2)
    spec, state = model_on(graph, "sage", 2)
    command = command_of(tmp_path, graph, state)
    run = [sys.executable, "-m", "backends.agl.infer", *command, "-c", "run_on=ray", "partitions=2"]
    (mine := Path("/tmp") / f"gi{os.getpid()}").mkdir()
    root = Path(__file__).resolve().parents[4]
    done = subprocess.run(run, cwd=root, env=os.environ | {"TMPDIR": str(mine)}, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    close(np.load(tmp_path / "out" / "scores.npy"), definition(graph, spec, state))
    deadline = time.monotonic() + 20
    while (left := processes_naming(str(mine))) and time.monotonic() < deadline:
        time.sleep(0.1)
    assert left == []
    assert list(mine.iterdir()) == []
    mine.rmdir()


def processes_naming(text):
    processes = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            if text in path.read_text():
                processes.append(path.parent.name)
        except OSError:
            continue
    return processes


@pytest.mark.needs_ray
def test_the_command_builds_the_table_of_its_edges_once(tmp_path, monkeypatch):
    files = chain(tmp_path, "gcn", "-s", "weighted(by=weight, limit=3)")
    build, built = Source.build, []
    monkeypatch.setattr(Source, "build", lambda *arguments: built.append(arguments[-1]) or build(*arguments))
    for run_on in ("local", "ray"):
        output = ["-m", str(tmp_path / "model.safetensors"), *files, "-o", str(tmp_path / run_on)]
        assert commandline.main([*output, "-c", f"run_on={run_on}", "partitions=3"]) == 0
    assert built == [tmp_path / run_on / "work" / "source" for run_on in ("local", "ray")]
    here, there = (scores_of(tmp_path / run_on) for run_on in ("local", "ray"))
    assert all(np.allclose(here[node], there[node], atol=1e-5) for node in here)


@pytest.mark.parametrize(("model", "sent"), [("gcn", 5), ("sage", 5), ("gat", 18)])
def test_partitions_on_ray_follow_what_is_sent_and_have_a_bound(monkeypatch, model, sent):
    """Features of 300 columns are multiplied before they are sent, to 5 columns; gat sends 3 heads and their scores."""
    graph = awkward_graph(5, nodes=400, edges=40_000, width=300)
    job = InferenceJob(graph, *model_on(graph, model, 2), least_partitions=2)
    monkeypatch.setattr(job_module, "SCRATCH_BYTES", 4 * 300 * 400)
    assert len(replace(job).parts) == 2  # what all nodes send fits
    monkeypatch.setattr(job_module, "SCRATCH_BYTES", 4 * sent * 399)
    by_edges = -(-graph.csr.nnz // 399)
    by_rows = -(-400 // (4 * sent * 399 // (4 * 300)))
    assert by_edges / 2 <= len(replace(job).parts) <= by_edges + by_rows + 2
    monkeypatch.setattr(job_module, "MOST_ON_RAY", 10)
    assert len(replace(job).parts) <= 10 + by_rows + 2
