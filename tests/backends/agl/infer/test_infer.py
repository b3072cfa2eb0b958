"""GraphInfer against the full-batch definition: scores, counts, subsets, resumption, refusals."""

import re
import tracemalloc
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.numpy import save_file

from backends.agl import user_network
from backends.agl.commandline import read_infer_settings
from backends.agl.flat.sampling_strategy import SamplingStrategy
from backends.agl.flat.source import Source
from backends.agl.infer import job as job_module
from backends.agl.infer.__main__ import by_rounds, forecast
from backends.agl.infer.drivers import LocalInference
from backends.agl.infer.inferrer import NeighbourhoodInference
from backends.agl.infer.inputs import check_graph
from backends.agl.infer.job import InferenceJob, Workspace, needs_table
from backends.agl.networks import model_slices, read_state, spec_from_state
from backends.agl.user_model import UserModelSpec
from backends.agl.user_network import dense_rows
from backends.agl.user_trial import tried
from backends.model import ModelSpec, initial_state
from backends.progress import silent
from backends.reference.definition import forward
from datasets.csr import Csr
from datasets.features import SparseFeatures, sparse_features
from tests.backends.agl.test_user_model import LAYER, source_of
from tests.graphs import awkward_graph

MODELS = ("gcn", "sage", "gat")


def model_on(graph, model, layers, head="none", fanouts=()):
    heads = (3, 2) if model == "gat" else (1, 1)
    spec = ModelSpec(model, layers, graph.width, 5, graph.classes, *heads, head=head, fanouts=fanouts)
    return spec, initial_state(spec, 7)


def definition(graph, spec, state):
    import torch

    parameters = {name: torch.from_numpy(value.astype(np.float64)) for name, value in state.items()}
    return forward(graph, spec, parameters).numpy()


def command_of(folder, graph, state):
    """Save a graph and a model; return the options with which GraphInfer scores them into the folder ``out``."""
    (folder / "graph").mkdir()
    graph.save(folder / "graph")
    save_file(state, folder / "model.safetensors")
    return ["-m", str(folder / "model.safetensors"), "-i", str(folder / "graph"), "-o", str(folder / "out")]


def inference(folder, *positional, **options):
    job = InferenceJob(*positional, **options)
    if needs_table(job.sampling, job.filtering):
        with TemporaryDirectory() as source:
            job = replace(job, table=Source.build(job.graph, job.sampling, job.filtering, Path(source)).table)
    engine = LocalInference(job, Workspace(folder, job.identity()))
    engine.map()
    return engine


def close(actual, expected):
    assert actual.shape == expected.shape
    assert np.abs(actual - expected).max() <= 1e-5 * np.abs(expected).max()


@pytest.mark.parametrize("partitions", [1, 3, 7])
@pytest.mark.parametrize("head", ["none", "linear"])
@pytest.mark.parametrize("layers", [1, 2, 3])
@pytest.mark.parametrize("model", MODELS)
def test_scores_equal_the_full_forward_pass_and_each_embedding_is_made_once(tmp_path, model, layers, head, partitions):
    graph = awkward_graph(layers, weighted=model == "gcn")
    spec, state = model_on(graph, model, layers, head)
    engine = inference(tmp_path, graph, spec, state, partitions=partitions)
    close(engine.run(), definition(graph, spec, state))
    assert engine.facts()["embeddings"] == layers * graph.nodes
    assert engine.facts()["rounds"] == layers + 1
    engine.start_over()
    close(engine.run(), definition(graph, spec, state))


@pytest.mark.parametrize("model", MODELS)
def test_a_subset_gets_the_rows_of_the_whole_from_fewer_embeddings(tmp_path, model):
    graph = awkward_graph(5, nodes=400, edges=300, weighted=model == "gcn")
    spec, state = model_on(graph, model, 2)
    targets = np.array([17, 3, 300, 399, 3])
    engine = inference(tmp_path, graph, spec, state, targets=targets, partitions=3)
    close(engine.run(), definition(graph, spec, state)[targets])
    computed = engine.facts()["made"]
    reached = {3, 17, 300, 399}
    assert computed["layer 2"] == len(reached)
    for node in list(reached):
        reached |= set(graph.csr.indices[graph.csr.indptr[node] : graph.csr.indptr[node + 1]].tolist())
    assert computed["layer 1"] == len(reached) < graph.nodes


class Killed(BaseException):
    """Ends a run in the middle of a round."""


def killed_in(step):
    def progress(name, done, of):
        if name.startswith(step) and done == of:
            raise Killed

    return progress


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("step", ["round 2: send", "round 2: receive", "round 3: receive"])
def test_a_killed_run_goes_on_after_its_last_finished_round(tmp_path, model, step):
    graph = awkward_graph(1)
    spec, state = model_on(graph, model, 3)
    job = InferenceJob(graph, spec, state, partitions=4)
    first = LocalInference(job, Workspace(tmp_path, job.identity()), killed_in(step))
    first.map()
    with pytest.raises(Killed):
        first.run()
    second = inference(tmp_path, graph, spec, state, partitions=2)
    close(second.run(), definition(graph, spec, state))
    begun = int(step.split()[1][0])
    assert [f"layer {k}" in second.computed for k in (1, 2, 3)] == [k >= begun for k in (1, 2, 3)]


def test_a_folder_of_another_inference_is_refused(tmp_path):
    graph = awkward_graph(1)
    spec, state = model_on(graph, "gcn", 2)
    inference(tmp_path / "a", graph, spec, state).run()
    with pytest.raises(ValueError, match=r"holds the work of another inference \(state was .* empty folder"):
        inference(tmp_path / "a", graph, spec, initial_state(spec, 8))
    (tmp_path / "b").mkdir()
    (tmp_path / "b" / "thesis.txt").write_text("mine")
    with pytest.raises(ValueError, match="holds files of something else"):
        inference(tmp_path / "b", graph, spec, state)
    assert (tmp_path / "b" / "thesis.txt").read_text() == "mine"
    own, changed = (users_model(graph, send, "edges.sum(sent)") for send in ("h", "h * 1"))
    inference(tmp_path / "c", graph, own, {})
    with pytest.raises(ValueError, match=r"another inference \(model.code is another\): give an empty folder"):
        inference(tmp_path / "c", graph, changed, {})


@pytest.mark.parametrize("head", ["none", "linear"])
@pytest.mark.parametrize("layers", [1, 2, 3])
@pytest.mark.parametrize("model", MODELS)
def test_a_state_implies_its_model_and_splits_into_disjoint_slices(model, layers, head):
    spec, state = model_on(awkward_graph(), model, layers, head)
    assert spec_from_state(state, "it").parameters() == spec.parameters()
    names = [set(part.slice_state) for part in model_slices(spec, state)]
    assert len(names) == layers + 1
    assert sum(map(len, names)) == len(state) == len(set().union(*names))
    assert names[-1] == ({"head.weight", "head.bias"} if head == "linear" else set())


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (lambda state: state.pop("layers.1.weight"), "holds nothing as layers.1.weight, the model needs"),
        (lambda state: state.update({"layers.0.bias": np.zeros(99, np.float32)}), r"holds \(99,\) as layers.0.bias"),
        (lambda state: state.update({"layers.7.bias": np.zeros(5, np.float32)}), "needs nothing of that name"),
        (lambda state: state["layers.0.weight"].fill(np.nan), "layers.0.weight of the state holds values that are not"),
    ],
)
def test_a_state_that_does_not_fit_is_refused(spoil, message):
    graph = awkward_graph()
    spec, state = model_on(graph, "gcn", 2)
    spoil(state)
    with pytest.raises(ValueError, match=message):
        InferenceJob(graph, spec, state)


def test_a_file_without_a_state_is_refused_by_name(tmp_path):
    state = model_on(awkward_graph(), "gcn", 2)[1]
    path = tmp_path / "model.safetensors"
    with pytest.raises(ValueError, match=f"there is no file {path}"):
        read_state(path)
    save_file(state, path)
    assert read_state(path).keys() == state.keys()
    path.write_bytes(path.read_bytes()[:-7])
    with pytest.raises(ValueError, match=f"{path} is no complete .safetensors file"):
        read_state(path)
    with pytest.raises(ValueError, match="names no layer"):
        spec_from_state({"weight": np.zeros(3, np.float32)}, "it")


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"strategy": SamplingStrategy((2, 2), seed=1)}, "sampling"),
        ({"strategy": SamplingStrategy((2, 2), "topk", "weight")}, "sampling"),
        ({"strategy": SamplingStrategy((2, 2), replacement=True)}, "sampling"),
        ({"targets": np.array([3, 8])}, "targets"),
    ],
    ids=str,
)
def test_a_folder_of_other_targets_or_samples_is_refused(tmp_path, options, named):
    graph = awkward_graph(1, weighted=True)
    spec, state = model_on(graph, "gcn", 2, fanouts=(2, 2))
    inference(tmp_path, graph, spec, state)
    inference(tmp_path, graph, spec, state, partitions=3)
    with pytest.raises(ValueError, match=rf"holds the work of another inference \({named}\S* was"):
        inference(tmp_path, graph, spec, state, **options)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"targets": np.array([0, 40])}, "targets reach from 0 to 40: allowed are 0 to 39"),
        ({"targets": np.array([-1])}, "targets reach from -1"),
        ({"partitions": -1}, "partitions=-1 is not allowed"),
    ],
)
def test_targets_and_partitions_that_do_not_exist_are_refused(options, message):
    graph = awkward_graph()
    with pytest.raises(ValueError, match=message):
        InferenceJob(graph, *model_on(graph, "gcn", 2), **options)


def test_a_run_keeps_no_values_of_edges_of_the_partitions_it_is_done_with(tmp_path):
    graph = awkward_graph(5, edges=40_000)
    edge_features = np.random.default_rng(1).normal(size=(graph.csr.nnz, 8)).astype(np.float32)
    graph = replace(graph, edge_features=edge_features)
    spec = replace(model_on(graph, "gat", 2)[0], edge_width=8)
    state = initial_state(spec, 7)
    engine = inference(tmp_path, graph, spec, state, partitions=8)
    tracemalloc.start()
    scores = engine.run()
    bytes_left = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    assert bytes_left < edge_features.nbytes / 4
    close(scores, definition(graph, spec, state))


def test_partitions_are_cut_by_edges_their_features_and_the_widest_rows(monkeypatch):
    graph = awkward_graph(5, nodes=400, edges=40_000)
    graph = replace(graph, edge_features=np.ones((graph.csr.nnz, 8), np.float32))
    spec = replace(model_on(graph, "gat", 2)[0], edge_width=8)
    job = InferenceJob(graph, spec, initial_state(spec, 7))
    assert len(job.parts) == 1 and job.parts is job.parts  # a list of them all, which rounds ask for in each
    monkeypatch.setattr(job_module, "SCRATCH_BYTES", 4 * 15 * 100)  # 100 nodes of 3 heads of 5 columns
    no_edges = replace(graph, csr=Csr(np.zeros(401, np.int32), np.zeros(0, np.int32), (400, 400)), edge_features=None)
    assert [last - first for first, last in InferenceJob(no_edges, *model_on(no_edges, "gat", 2)).parts] == [100] * 4
    assert len(replace(job).parts) > 100  # edges of 32 bytes, 187 of them or those of one node
    assert len(replace(job, partitions=2).parts) == 2


def test_sparse_features_turn_dense_within_the_memory_of_a_partition(tmp_path, monkeypatch):
    graph, turned = awkward_graph(2, nodes=300, edges=10), []
    entries = np.arange(300)
    graph = replace(graph, features=sparse_features(entries, entries, np.ones(300, np.float32), (300, 10_000)))
    code = source_of(send="h[:, :3]", receive="torch.tanh(h[:, :3] + edges.sum(sent))")
    spec = tried(UserModelSpec("net.py", 2, in_width=10_000, hidden=3, classes=3, file="net.py", code=code))
    monkeypatch.setattr(job_module, "SCRATCH_BYTES", 1 << 20)
    monkeypatch.setattr(user_network, "dense_rows", lambda rows: turned.append(dense_rows(rows)) or turned[-1])
    assert inference(tmp_path, graph, spec, {}).run().shape == (300, 3)
    assert 1 << 19 < max(rows.nbytes for rows in turned) <= 1 << 20


def users_model(graph, send, receive, layer=LAYER):
    """A model of two layers of three columns."""
    code = source_of(layer, send, f"torch.tanh(h[:, :3] + {receive}[:, :3])")
    return tried(UserModelSpec("net.py", 2, in_width=graph.width, hidden=3, classes=3, file="net.py", code=code))


@pytest.mark.parametrize("send", ["h", "h * 1 if h.sum() > 0 else h"], ids=["always", "in the first partitions"])
def test_a_message_that_is_the_input_is_not_written_again(tmp_path, monkeypatch, send):
    graph = awkward_graph(3)
    signs = np.where(np.arange(graph.nodes) < 20, -1, 1)[:, None].astype(np.float32)
    graph = replace(graph, features=np.abs(graph.features) * signs)
    spec = users_model(graph, send, "edges.sum(sent)")
    expected = inference(tmp_path / "whole", graph, spec, {}, partitions=1).run()
    monkeypatch.setattr(job_module, "SCRATCH_BYTES", 0)  # every copy is a file
    job = InferenceJob(graph, spec, {}, partitions=4)
    engine = LocalInference(job, Workspace(tmp_path / "parts", job.identity(), unmap=True))
    engine.map()
    by_map = engine.space.written
    close(engine.run(), expected)
    embeddings = 2 * graph.nodes * 3 * 4
    assert (engine.space.written - by_map == embeddings) == (send == "h")


def test_a_users_layer_gets_the_messages_of_its_in_neighbours_alone(tmp_path):
    graph, limit = awkward_graph(5, nodes=400, edges=300), "assert len(sent) <= 3 + edges.csr.nnz"
    layer = LAYER.replace("return {receive}", f"{limit}\n        return {{receive}}")
    spec = users_model(graph, "h", "edges.sum(sent / (1 + edges.source_degrees[:, None]))", layer)
    whole, parts = (inference(tmp_path / str(count), graph, spec, {}, partitions=count).run() for count in (1, 8))
    close(parts, whole)


def test_the_forecast_of_the_disk_covers_the_matrices_of_a_users_model(tmp_path):
    graph = awkward_graph(2, edges=40_000)
    engine = inference(tmp_path, graph, users_model(graph, "h", "edges.sum(sent)"), {}, partitions=2)
    foreseen = float(re.search(r"up to (\S+) GiB of disk", forecast(engine.job, tmp_path))[1]) * 2**30
    assert 0.99 < foreseen / engine.space.written < 1.2


def test_sparse_features_are_checked_in_pieces_and_a_wrong_one_is_named():
    entries = 1 << 20
    values = np.ones(entries, np.float32)
    csr = Csr(np.arange(0, entries + 1, 4), np.arange(entries) % 4, (entries // 4, 100))
    graph = replace(awkward_graph(2), features=SparseFeatures(csr, values))
    tracemalloc.start()
    check_graph(graph)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < entries * 2
    values[900_001] = np.nan
    with pytest.raises(ValueError, match="features holds NaN or infinite numbers in row 225000: mend"):
        check_graph(graph)


def test_a_feature_of_an_edge_that_is_not_finite_is_named():
    graph = awkward_graph(2)
    features = np.ones((graph.csr.nnz, 2), np.float32)
    features[7, 1] = np.inf
    with pytest.raises(ValueError, match="edge_features holds NaN or infinite numbers in row 7: mend"):
        check_graph(replace(graph, edge_features=features))


def test_each_layer_reads_as_many_neighbours_as_its_own_fanout(tmp_path):
    graph = awkward_graph(4)
    spec, state = model_on(graph, "sage", 3, fanouts=(1, 5, 2))
    engine = inference(tmp_path, graph, spec, state)
    for layer, fanout in enumerate(spec.fanouts):
        sampled = np.minimum(graph.csr.in_degrees, fanout)
        np.testing.assert_array_equal(engine.job.degrees(np.arange(graph.nodes), layer), sampled)
        assert engine.job.in_edges(np.arange(graph.nodes), layer)[0].nnz == sampled.sum()
    close(engine.run(), NeighbourhoodInference(InferenceJob(graph, spec, state), 13).run())


@settings(max_examples=60)
@given(
    st.sampled_from(MODELS),
    st.lists(st.integers(1, 6), min_size=1, max_size=3),
    st.integers(1, 7),
    st.integers(0, 5),
    st.sampled_from([("uniform", False), ("uniform", True), ("topk", False), ("weighted", False)]),
)
def test_sampled_scores_equal_those_of_each_targets_neighbourhood(model, fanouts, partitions, seed, sampling):
    graph = awkward_graph(seed, weighted=model == "gcn" or sampling[0] != "uniform")
    spec, state = model_on(graph, model, len(fanouts), fanouts=tuple(fanouts))
    sampler, replacement = sampling
    by = None if sampler == "uniform" else "weight"
    options = {"strategy": SamplingStrategy(tuple(fanouts), sampler, by, replacement, seed=seed)}
    with TemporaryDirectory() as folder:
        scores = inference(Path(folder), graph, spec, state, partitions=partitions, **options).run()
    for size in (1, 13, graph.nodes):
        close(NeighbourhoodInference(InferenceJob(graph, spec, state, **options), size).run(), scores)
    targets = np.array([5, 0, 39, 7])
    with TemporaryDirectory() as folder:
        subset = inference(Path(folder), graph, spec, state, targets=targets, partitions=partitions, **options)
        close(subset.run(), scores[targets])


@pytest.mark.parametrize("layers", [1, 2, 3])
@pytest.mark.parametrize("model", MODELS)
def test_whole_neighbourhoods_score_as_the_definition_from_more_embeddings(model, layers):
    graph = awkward_graph(2, weighted=model == "gcn")
    spec, state = model_on(graph, model, layers, "linear")
    engine = NeighbourhoodInference(InferenceJob(graph, spec, state), 9)
    close(engine.run(), definition(graph, spec, state))
    assert engine.facts()["embeddings"] >= layers * graph.nodes - (layers == 1)
    targets = np.array([9, 2, 30])
    close(
        NeighbourhoodInference(InferenceJob(graph, spec, state, targets), 2).run(),
        definition(graph, spec, state)[targets],
    )


def test_draws_by_weight_read_their_sums_from_a_file(tmp_path):
    graph = awkward_graph(2, weighted=True)
    spec, state = model_on(graph, "gcn", 2, fanouts=(3, 2))
    job = InferenceJob(graph, spec, state, strategy=SamplingStrategy((3, 2), "weighted", "weight"))
    scores, _ = by_rounds(job, read_infer_settings([]), tmp_path, silent)
    assert (tmp_path / "work" / "source" / "sums.npy").is_file()
    close(scores, NeighbourhoodInference(job, 13).run())
