"""Both forms of the loss in every engine that trains: equal to the definition, refused where nothing trains."""

import numpy as np
import pytest

from backends.model import ModelSpec
from backends.registry import MODULES, config_class
from backends.settings import LOSSES
from tests.contract.test_parity import assert_equals_definition, trainer_of
from tests.graphs import awkward_graph

MARKS = {"pyg": [pytest.mark.needs_pyg], "dgl": [pytest.mark.needs_dgl]}
WITH_LOSS = [name for name in MODULES if hasattr(config_class(name), "loss")]
ENGINES = [pytest.param(name, marks=MARKS.get(name, [])) for name in WITH_LOSS]


@pytest.mark.parametrize("form", LOSSES)
@pytest.mark.parametrize("multilabel", [True, False], ids=["0/1 rows", "classes"])
@pytest.mark.parametrize("few", [True, False], ids=["few", "most"])
@pytest.mark.parametrize("backend", ENGINES)
def test_either_form_of_the_loss_equals_the_definition(backend, few, multilabel, form):
    graph = awkward_graph(3, multilabel=multilabel)
    spec = ModelSpec("sage", 2, graph.width, 5, graph.classes)
    targets = graph.nodes_of("train")[::-1][:9] if few else np.flatnonzero(np.arange(graph.nodes) % 5)[::-1]
    trainer = trainer_of(backend, {"loss": form}, graph, spec, None)
    assert_equals_definition(trainer, graph, spec, targets)
    trainer.close()


@pytest.mark.parametrize("multilabel", [True, False], ids=["0/1 rows", "classes"])
@pytest.mark.parametrize("backend", ENGINES)
def test_the_kernel_computes_the_loss_only_where_its_form_is_fused(backend, multilabel, monkeypatch):
    calls = []

    def count(logits, *_):
        calls.append(logits)
        return logits.sum()

    monkeypatch.setattr(f"backends.base.loss.{'binary_' * multilabel}cross_entropy", count)
    graph = awkward_graph(3, multilabel=multilabel)
    spec = ModelSpec("sage", 1, graph.width, 5, graph.classes)
    for form in LOSSES:
        calls.clear()
        trainer_of(backend, {"loss": form}, graph, spec, None).loss_and_gradients(graph.nodes_of("train"))
        assert bool(calls) == (form == "fused")


@pytest.mark.parametrize("backend", WITH_LOSS)
def test_scenarios_without_training_have_no_other_loss(backend):
    own = config_class(backend).loss
    (other,) = set(LOSSES) - {own}
    assert config_class(backend)(loss=own).unsupported("infer", "gcn", "cpu", True) is None
    assert "backend.loss" in config_class(backend)(loss=other).unsupported("infer", "gcn", "cpu", True)
    assert config_class(backend)(loss=other).unsupported("train", "gcn", "cpu", True) is None
