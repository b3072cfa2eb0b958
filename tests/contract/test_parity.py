"""Every engine against the float64 definition: logits, loss and every gradient, full batch and mini batch."""

import time
from contextlib import contextmanager

import numpy as np
import pytest

from backends.ablation import resolve
from backends.batches import BatchPlan
from backends.model import ModelSpec, TrainingSpec, initial_state
from backends.model_names import MODELS, WEIGHTED
from backends.reference.definition import loss_and_gradients
from backends.registry import config_class, runtime
from tests.graphs import awkward_graph

NATIVE = [("reference", {})] + [("reference", {"variant": form}) for form in ("scatter", "cached", "reduce_cached")]
NATIVE += [("blocksparse", {})] + [
    ("agl", {"pruning": pruning, "partition": partition, "pipeline": "true", "form": form})
    for pruning, partition, form in (
        ("true", "true", "tight"),
        ("true", "false", "paper"),
        ("false", "true", "tight"),
    )
]
NATIVE += [("agl", {"partition": "false", "unpartitioned": "scattered"})]

NATIVE += [
    ("agl", {"strategy": strategy, "workers": workers, "servers": 0})
    for strategy, workers in (("sync", 3), ("async", 2))
] + [("agl", {"source": "graphfeature"})]
NATIVE += [("agl", {"source": "graphfeature", "strategy": "sync", "workers": 3, "servers": 0})]


def name_of(case):
    return "-".join(map(str, (case[0], *case[1].values(), *case[2:])))


def supported(size):
    """Engines with their models and batch sizes, as far as their configs do not call them unsupported."""
    return [
        (backend, options, model, batch_size)
        for backend, options in NATIVE
        for model in MODELS
        for batch_size in (None, size)
        if config_class(backend)(**options).unsupported("train", model, "cpu", batch_size is None) is None
    ]


class PlainClock:
    """The simplest clock of the contract: adds up the seconds of phases."""

    def __init__(self):
        self.seconds = {}

    @contextmanager
    def phase(self, name):
        start = time.perf_counter()
        yield
        self.seconds[name] = self.seconds.get(name, 0.0) + time.perf_counter() - start


def spec_of(model, layers, graph, heads=3):
    return ModelSpec(model, layers, graph.width, 5, graph.classes, heads=heads, output_heads=2 if heads > 1 else 1)


def errors(gradients, expected):
    """The gate's error: relative to the tensor, or to a thousandth of its layer's largest gradient."""
    largest = {}
    for name, value in expected.items():
        layer = name.rsplit(".", 1)[0]
        largest[layer] = max(largest.get(layer, 0.0), float(np.abs(value).max()))
    return {
        name: float(np.abs(gradients[name] - value).max())
        / max(float(np.abs(value).max()), 1e-3 * largest[name.rsplit(".", 1)[0]], 1e-30)
        for name, value in expected.items()
    }


def trainer_of(backend, options, graph, spec, batch_size, seed=0):
    config = resolve(config_class(backend)(**options), [])
    trainer = runtime(config, "train")
    plan = BatchPlan(graph.nodes_of("train"), batch_size)
    trainer.prepare(graph, spec, TrainingSpec(threads=1), initial_state(spec, seed), plan, PlainClock())
    return trainer


def assert_equals_definition(trainer, graph, spec, targets):
    """Logits, loss and gradients from the initial state are within the bounds of the parity gate."""
    logits, loss, gradients = trainer.loss_and_gradients(targets)
    expected_logits, expected_loss, expected = loss_and_gradients(graph, spec, initial_state(spec, 0), targets)
    assert np.abs(logits - expected_logits).max() <= 1e-5 * np.abs(expected_logits).max()
    assert abs(loss - expected_loss) <= 1e-5 * abs(expected_loss)
    assert {name: value.shape for name, value in gradients.items()} == spec.parameters()
    worst = errors(gradients, expected)
    assert max(worst.values()) <= 2e-5, worst


@pytest.mark.parametrize("model", MODELS)
def test_float64_is_computed_throughout(model):
    """An array that is float32 on the way, such as gcn's weights, is off by 1e-8."""
    graph = awkward_graph(2, weighted=model in WEIGHTED)
    spec, state = spec_of(model, 2, graph), initial_state(spec_of(model, 2, graph), 0)
    targets, trainer = graph.nodes_of("train"), runtime(resolve(config_class("blocksparse")(), []), "train")
    training = TrainingSpec(threads=1, dtype="float64")
    trainer.prepare(graph, spec, training, state, BatchPlan(targets), PlainClock())
    logits, loss, gradients = trainer.loss_and_gradients(targets)
    expected_logits, expected_loss, expected = loss_and_gradients(graph, spec, state, targets)
    assert np.abs(logits - expected_logits).max() <= 1e-13 * np.abs(expected_logits).max()
    assert abs(loss - expected_loss) <= 1e-13 * abs(expected_loss)
    assert max(errors(gradients, expected).values()) <= 1e-12


@pytest.mark.parametrize("multilabel", [False, True], ids=["multiclass", "multilabel"])
@pytest.mark.parametrize("layers", [1, 2, 3])
@pytest.mark.parametrize("case", supported(7), ids=name_of)
@pytest.mark.parametrize("few", [True, False], ids=["few", "most"])
def test_loss_and_gradients_equal_the_definition(case, layers, multilabel, few):
    backend, options, model, batch_size = case
    graph = awkward_graph(layers, weighted=model in WEIGHTED, multilabel=multilabel)
    spec = spec_of(model, layers, graph)
    targets = graph.nodes_of("train")[::-1][:9] if few else np.flatnonzero(np.arange(graph.nodes) % 5)[::-1]
    trainer = trainer_of(backend, options, graph, spec, batch_size)
    assert_equals_definition(trainer, graph, spec, targets)
    trainer.close()


@pytest.mark.parametrize("case", supported(5), ids=name_of)
def test_epochs_train_and_predictions_follow_the_state(case):
    backend, options, model, batch_size = case
    graph = awkward_graph(1)
    spec = spec_of(model, 2, graph)
    trainer = trainer_of(backend, options, graph, spec, batch_size)
    before = trainer.predict(graph, np.arange(graph.nodes))
    losses = [trainer.epoch(index, PlainClock()) for index in range(25)]
    assert losses[-1] < losses[0]
    trainer.load(initial_state(spec, 0))
    np.testing.assert_array_equal(trainer.predict(graph, np.arange(graph.nodes)), before)
    state = trainer.state()
    assert {name: value.shape for name, value in state.items()} == spec.parameters()
    trainer.close()


def test_fewer_targets_than_workers_are_probed_by_some_of_them():
    graph = awkward_graph(2)
    spec, options = spec_of("sage", 2, graph), {"strategy": "sync", "workers": 3, "servers": 0}
    trainer = trainer_of("agl", options | {"source": "graphfeature"}, graph, spec, 7)
    assert_equals_definition(trainer, graph, spec, graph.nodes_of("train")[:2])
    trainer.close()
