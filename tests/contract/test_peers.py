"""The peers against the float64 definition: logits, loss and every gradient, full batch and mini batch."""

from dataclasses import replace

import numpy as np
import pytest

from backends.model import ModelSpec, initial_state
from backends.reference.definition import loss_and_gradients
from tests.contract.test_parity import PlainClock, errors, trainer_of
from tests.graphs import awkward_graph

PYG = [
    pytest.param("pyg", {"variant": variant}, None, marks=pytest.mark.needs_pyg, id=f"pyg-{variant}-full")
    for variant in ("edge_index", "csr")
]
DGL = [
    pytest.param("dgl", {}, size, marks=pytest.mark.needs_dgl, id=f"dgl-{'mini' if size else 'full'}")
    for size in (None, 7)
]


def check(backend, options, batch_size, graph, spec):
    """Both logits, loss and gradients within the gate's bounds, for targets out of order."""
    targets = graph.nodes_of("train")[::-1][:9]
    trainer = trainer_of(backend, options, graph, spec, batch_size)
    logits, loss, gradients = trainer.loss_and_gradients(targets)
    trainer.close()
    wanted_logits, wanted_loss, wanted = loss_and_gradients(graph, spec, initial_state(spec, 0), targets)
    assert np.abs(logits - wanted_logits).max() <= 1e-5 * np.abs(wanted_logits).max()
    assert abs(loss - wanted_loss) <= 1e-5 * abs(wanted_loss)
    assert {name: value.shape for name, value in gradients.items()} == spec.parameters()
    worst = errors(gradients, wanted)
    assert max(worst.values()) <= 2e-5, worst


@pytest.mark.parametrize("multilabel", [False, True], ids=["multiclass", "multilabel"])
@pytest.mark.parametrize("layers", [1, 2, 3])
@pytest.mark.parametrize(
    ("model", "heads", "weighted"),
    [("gcn", 1, False), ("gcn", 1, True), ("sage", 1, False), ("gat", 1, False), ("gat", 3, False)],
    ids=["gcn", "gcn-weighted", "sage", "gat-1", "gat-3"],
)
@pytest.mark.parametrize(("backend", "options", "batch_size"), [*PYG, *DGL])
def test_loss_and_gradients_equal_the_definition(
    backend, options, batch_size, model, heads, weighted, layers, multilabel
):
    graph = awkward_graph(layers, weighted=weighted, multilabel=multilabel)
    outputs = 2 if heads > 1 else 1
    spec = ModelSpec(model, layers, graph.width, 5, graph.classes, heads=heads, output_heads=outputs)
    check(backend, options, batch_size, graph, spec)
