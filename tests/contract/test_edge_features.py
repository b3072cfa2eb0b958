"""gat scores features of edges alike in every engine, and what cannot read them refuses them by name."""

from dataclasses import replace

import numpy as np
import pytest

from backends.batches import BatchPlan
from backends.contract import Unsupported
from backends.model import ModelSpec, TrainingSpec, initial_state
from backends.registry import config_class, runtime
from tests.contract.test_parity import PlainClock, assert_equals_definition, trainer_of
from tests.graphs import awkward_graph

ENGINES = [
    ("agl", {}, None),
    ("agl", {}, 5),
    ("agl", {"pruning": "false"}, 5),
    ("agl", {"form": "paper"}, 5),
    ("agl", {"source": "graphfeature"}, 5),
    ("agl", {"source": "graphfeature", "features": "shared"}, None),
    ("agl", {"strategy": "sync", "workers": 2, "servers": 0}, 5),
    ("blocksparse", {}, None),
    ("reference", {}, None),
    ("dgl", {}, None),
    ("dgl", {}, 5),
    ("pyg", {}, None),
    ("pyg", {"variant": "scatter"}, None),
]


def graph_and_spec(model="gat", heads=3):
    """A graph with features of edges, and a model that scores them."""
    graph = awkward_graph(3)
    features = np.random.default_rng(0).normal(size=(graph.csr.nnz, 4)).astype(np.float32)
    spec = ModelSpec(model, 2, graph.width, 5, graph.classes, heads, 2 if heads > 1 else 1)
    return replace(graph, edge_features=features), replace(spec, edge_width=4 if model == "gat" else 0)


def marked(cases):
    """Mark the cases of peers that may not be installed."""
    marks = {"pyg": pytest.mark.needs_pyg, "dgl": pytest.mark.needs_dgl}
    return [pytest.param(*case, marks=marks.get(case[0], ())) for case in cases]


@pytest.mark.parametrize("heads", [1, 3])
@pytest.mark.parametrize(("backend", "options", "batch_size"), marked(ENGINES))
def test_scores_equal_the_definition(backend, options, batch_size, heads):
    graph, spec = graph_and_spec(heads=heads)
    trainer = trainer_of(backend, options, graph, spec, batch_size)
    try:
        targets = np.sort(trainer.plan.nodes if batch_size is None else trainer.plan.nodes[:7])
        assert_equals_definition(trainer, graph, spec, targets)
    finally:
        trainer.close()


@pytest.mark.parametrize(
    ("backend", "options", "model", "batch_size", "message"),
    marked(
        [
            ("agl", {}, "sage", None, "holds edge features, which sage would drop"),
            ("agl", {"sampler": "topk(by=weight, limit=2)"}, "gcn", None, "holds edge features, which gcn would drop"),
            ("blocksparse", {}, "gcn", None, "model gcn takes no edge features"),
            ("blocksparse", {"ranks": 2}, "gat", None, "backend blocksparse does not score features of edges here"),
            ("reference", {"variant": "cached"}, "gat", None, "backend reference does not score"),
            ("pyg", {}, "gat", 5, "backend pyg does not score"),
            ("pyg", {"variant": "csr"}, "gat", None, "backend pyg does not score"),
            ("dgl", {}, "sage", None, "model sage takes no edge features"),
        ]
    ),
)
def test_what_is_not_read_is_refused(backend, options, model, batch_size, message):
    graph, spec = graph_and_spec(model)
    trainer, plan = runtime(config_class(backend)(**options), "train"), BatchPlan(graph.nodes_of("train"), batch_size)
    with pytest.raises(Unsupported, match=message):
        trainer.prepare(graph, spec, TrainingSpec(threads=1), initial_state(spec, 0), plan, PlainClock())


@pytest.mark.parametrize("options", [{}, {"source": "graphfeature"}])
def test_a_batch_without_an_edge_is_scored_by_its_loops(options):
    graph, spec = graph_and_spec()
    lonely = np.flatnonzero(graph.csr.in_degrees == 0)[:3]
    assert len(lonely)
    trainer = trainer_of("agl", options, graph, spec, 5)
    assert_equals_definition(trainer, graph, spec, lonely)
    trainer.close()
