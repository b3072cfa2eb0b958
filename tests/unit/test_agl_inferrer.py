"""``backend.infer`` of agl: every value scores as the definition, says what it made, and leaves no file behind."""

import tempfile

import numpy as np
import pytest

from backends.agl.config import INFER, AglConfig
from backends.batches import BatchPlan
from backends.contract import Unsupported
from backends.model import TrainingSpec
from backends.registry import runtime
from tests.contract.test_parity import PlainClock
from tests.graphs import awkward_graph
from tests.unit.test_graphinfer import MODELS, close, definition, model_on


@pytest.mark.parametrize("size", [None, 9])
@pytest.mark.parametrize("infer", INFER)
@pytest.mark.parametrize("model", MODELS)
def test_every_way_to_infer_scores_as_the_definition(tmp_path, monkeypatch, model, infer, size):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    graph = awkward_graph(3, weighted=model == "gcn")
    spec, state = model_on(graph, model, 2)
    wanted = definition(graph, spec, state)
    for nodes in (np.arange(graph.nodes), np.array([7, 3, 21])):
        engine = runtime(AglConfig(infer=infer, partitions=3, pruning="true", partition="true"), "infer")
        clock = PlainClock()
        engine.prepare(graph, spec, TrainingSpec(threads=1), state, BatchPlan(nodes, size), clock)
        for _ in range(2):
            close(engine.infer(clock), wanted[nodes])
        facts = engine.facts()
        if infer == "graphinfer":
            assert {item["nnz"] for item in facts["spmm"]}
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


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"infer": "guess"}, "backend.infer='guess' is not allowed: one of graphinfer"),
        ({"partitions": -1}, "at least 1"),
    ],
)
def test_options_that_do_not_exist_are_refused(options, message):
    with pytest.raises(ValueError, match=message):
        AglConfig(**options)
