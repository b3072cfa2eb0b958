"""Kept transposes are preparation: no engine of ours and no form of plain torch builds one in its epochs."""

import numpy as np
import pytest

from backends.ablation import resolve
from backends.batches import BatchPlan
from backends.kernels.operand import operand
from backends.model import ModelSpec, TrainingSpec, initial_state
from backends.registry import config_class, runtime
from tests.contract.test_parity import PlainClock
from tests.graphs import awkward_graph

ENGINES = [
    ("blocksparse", {}, None),
    ("agl", {}, None),
    ("agl", {}, 30),  # most of the graph, so that lower layers read it in place
    ("reference", {"variant": "cached"}, None),
    ("reference", {"variant": "reduce_cached"}, None),
]


@pytest.fixture
def no_transposing(monkeypatch):
    """Let every way to transpose a matrix fail, once it is called."""

    def forbid():
        def fail(*_, **__):
            raise AssertionError("a transpose was built in the timed region")

        monkeypatch.setattr("backends.kernels.operand.transposed", fail)
        monkeypatch.setattr("datasets.csr.np.argsort", fail)

    return forbid


@pytest.mark.parametrize("model", ["gcn", "sage", "gat"])
@pytest.mark.parametrize(("backend", "options", "size"), ENGINES)
def test_epochs_use_the_transpose_of_the_preparation(backend, options, size, model, no_transposing):
    graph = awkward_graph(2, multilabel=True)
    spec = ModelSpec(model, 3, graph.width, 5, graph.classes)
    trainer, clock = runtime(resolve(config_class(backend)(**options), []), "train"), PlainClock()
    plan = BatchPlan(np.arange(graph.nodes - 1), size, limit=None if size is None else 1)
    trainer.prepare(graph, spec, TrainingSpec(threads=1), initial_state(spec, 0), plan, clock)
    assert backend == "reference" or "transpose" in clock.seconds
    if size is None:
        no_transposing()
    else:  # matrices of a batch are transposed with it, that of the whole graph is not
        assert "backward" in vars(operand(trainer.source.neighbourhoods.csr))
    trainer.epoch(0, PlainClock())
    trainer.close()


@pytest.mark.parametrize("model", ["gcn", "sage", "gat"])
@pytest.mark.parametrize(
    ("backend", "options"), [("blocksparse", {}), ("reference", {"variant": "cached"})], ids=["ours", "torch"]
)
def test_an_aggregation_uses_the_transpose_of_the_preparation(backend, options, model, no_transposing):
    graph, spec = awkward_graph(2), ModelSpec(model, 1, 10, 10, 10)
    multiplier = runtime(resolve(config_class(backend)(**options), []), "spmm")
    multiplier.prepare(graph, spec, TrainingSpec(threads=1), PlainClock())
    no_transposing()
    multiplier.multiply(PlainClock())
    multiplier.close()
