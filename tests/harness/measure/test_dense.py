"""Time of the dense layers alone: every model has one."""

import pytest

from backends.model import ModelSpec, initial_state
from harness.measure.dense import dense_floor
from tests.graphs import awkward_graph


@pytest.mark.parametrize("multilabel", [False, True])
@pytest.mark.parametrize("model", ["gcn", "sage", "gat"])
def test_every_model_has_a_dense_floor(model, multilabel, monkeypatch):
    graph = awkward_graph(1, multilabel=multilabel)
    spec = ModelSpec(model, 3, graph.width, 5, graph.classes, heads=2, output_heads=2, head="linear")
    called = []
    monkeypatch.setattr("harness.measure.dense.best_of", lambda call: called.append(call()) or 0.25)
    assert dense_floor(spec, graph, initial_state(spec, 0), 1) == 0.25
    assert len(called) == 1
