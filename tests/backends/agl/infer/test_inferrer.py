"""``backend.infer`` of agl: every value scores as the definition, reports facts, and leaves no file behind."""

import tempfile

import numpy as np
import pytest

from backends.agl.config import INFER, AglConfig
from backends.batches import BatchPlan
from backends.contract import Unsupported
from backends.model import TrainingSpec
from backends.registry import runtime
from tests.backends.agl.infer.test_infer import MODELS, close, definition, model_on
from tests.contract.test_parity import PlainClock
from tests.graphs import awkward_graph

FORMS = [*((infer, "graph") for infer in INFER), ("neighbourhood", "graphfeature")]


@pytest.mark.parametrize("size", [None, 9])
@pytest.mark.parametrize(("infer", "source"), FORMS)
@pytest.mark.parametrize("model", MODELS)
def test_every_value_of_backend_infer_scores_as_the_definition(tmp_path, monkeypatch, model, infer, source, size):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    graph = awkward_graph(3, weighted=model == "gcn")
    spec, state = model_on(graph, model, 2)
    expected = definition(graph, spec, state)
    for nodes in (np.arange(graph.nodes), np.array([7, 3, 21])):
        engine = runtime(AglConfig(infer=infer, source=source, partitions=3, pruning="true", partition="true"), "infer")
        clock = PlainClock()
        engine.prepare(graph, spec, TrainingSpec(threads=1), state, BatchPlan(nodes, size), clock)
        for _ in range(2):
            close(engine.infer(clock), expected[nodes])
        facts = engine.facts()
        if infer == "graphinfer":
            assert {spmm["nnz"] for spmm in facts["spmm"]}
            assert facts["embeddings"] <= 2 * graph.nodes
            assert {"map", "send", "receive", "score"} <= clock.seconds.keys()
        engine.close()
        assert list(tmp_path.iterdir()) == []


def test_one_pass_over_the_whole_graph_does_not_sample():
    graph = awkward_graph()
    spec, state = model_on(graph, "gcn", 2, fanouts=(3, 2))
    engine = runtime(AglConfig(infer="fullgraph", pruning="true", partition="true"), "infer")
    with pytest.raises(
        Unsupported, match=r"reads all neighbours here, not model.fanouts=\[3, 2\]: choose .* backend.infer=graphinfer"
    ):
        engine.prepare(graph, spec, TrainingSpec(), state, BatchPlan(np.arange(graph.nodes)), PlainClock())


def prepared(graph, spec, state, **options):
    engine = runtime(AglConfig(pruning="true", partition="true", **options), "infer")
    engine.prepare(
        graph, spec, TrainingSpec(threads=1, seed=4), state, BatchPlan(np.arange(graph.nodes), 9), PlainClock()
    )
    return engine


SAMPLED = [
    *(("gcn", text) for text in ("weighted(3);weighted(2)", "topk(2)", "uniform(2, replacement=true)", "full()", "")),
    *((model, "uniform(4);uniform(1)") for model in ("sage", "gat")),
]


@pytest.mark.parametrize("source", ["graph", "graphfeature"])
@pytest.mark.parametrize(("infer", "reads"), [form for form in FORMS if form[0] != "fullgraph"])
@pytest.mark.parametrize(("model", "sampler"), SAMPLED)
def test_inference_draws_the_samples_of_training_and_of_graphfeatures(model, sampler, infer, reads, source):
    graph = awkward_graph(3, weighted=model == "gcn")
    spec, state = model_on(graph, model, 2, fanouts=(3, 4))
    engine = prepared(graph, spec, state, sampler=sampler, infer=infer, source=reads)
    switches = {"pruning": "true", "partition": "true", "pipeline": "true"}
    training = runtime(AglConfig(sampler=sampler, source=source, **switches), "train")
    plan = BatchPlan(graph.nodes_of("train"), 9)
    training.prepare(graph, spec, TrainingSpec(threads=1, seed=4), state, plan, PlainClock())
    nodes = np.array([7, 3, 21])
    close(engine.infer(PlainClock())[nodes], training.loss_and_gradients(nodes)[0])
    engine.close()
    training.close()


@pytest.mark.needs_ray
def test_tasks_of_ray_score_as_this_process_does():
    graph = awkward_graph(3, weighted=True)
    spec, state = model_on(graph, "gcn", 2, fanouts=(3, 4))
    options = {"partitions": 3, "hub_threshold": 10, "sampler": "topk(4);topk(3)"}
    here, tasks = (prepared(graph, spec, state, run_on=where, **options) for where in ("local", "ray"))
    for _ in range(2):
        close(tasks.infer(PlainClock()), here.infer(PlainClock()))
    assert tasks.facts()["hub_pieces"] > 0 and tasks.facts()["rounds"] == 3
    for engine in (here, tasks):
        engine.close()


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"filter": "weight > 0.5"}, "filter 'weight > 0.5' names 'weight', which this graph does not have"),
        ({"scope": "target", "sampler": "uniform(2)"}, "backend.scope=target"),
        ({"sampler": "topk(2, reverse=true)"}, "sampler topk samples by 'weight': the graph has no column 'weight'"),
        ({"infer": "fullgraph", "sampler": "uniform(2)"}, "backend.infer=fullgraph reads all edges"),
        ({"infer": "neighbourhood", "run_on": "ray"}, "backend.infer=neighbourhood runs in this process"),
    ],
)
def test_samplers_that_inference_lacks_are_unsupported(options, named):
    graph = awkward_graph(3)
    with pytest.raises(Unsupported, match=named):
        prepared(graph, *model_on(graph, "sage", 2), **options)


@pytest.mark.parametrize("size", [1500, 9])
def test_batches_of_records_are_as_large_as_asked_for(size):
    graph = awkward_graph(5, nodes=3000, edges=6000)
    spec, state = model_on(graph, "sage", 2, fanouts=(2, 2))
    engine = runtime(AglConfig(infer="neighbourhood", source="graphfeature", pruning="true", partition="true"), "infer")
    plan = BatchPlan(np.arange(graph.nodes), size)
    engine.prepare(graph, spec, TrainingSpec(threads=1), state, plan, PlainClock())
    counts = [len(batch.rows) for batch in engine.inference.reader.encoded_batches(size)]
    assert len(counts) == -(-graph.nodes // size) and max(counts) == engine.facts()["batch"] == size
    engine.close()
