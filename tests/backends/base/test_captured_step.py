"""Recorded steps: they train to the same bits as computed ones, and are refused where they would not."""

import numpy as np
import pytest
import torch
from torch import nn

from backends.ablation import resolve
from backends.base.captured_step import captured
from backends.batches import BatchPlan
from backends.kernels.extension import extension
from backends.kernels.recording import recorded
from backends.model import ModelSpec, TrainingSpec, initial_state
from backends.registry import config_class, runtime
from tests.contract.test_parity import PlainClock
from tests.contract.test_sparse_input import sparse_graph
from tests.graphs import awkward_graph

pytestmark = pytest.mark.skipif(extension is None, reason="the kernels are not built")
ENGINES = [
    ("agl", {}),
    ("agl", {"form": "paper"}),
    ("agl", {"pruning": "false"}),
    ("agl", {"partition": "false"}),
    ("agl", {"partition": "false", "unpartitioned": "scattered"}),
    ("agl", {"loss": "torch"}),
    ("blocksparse", {}),
    ("blocksparse", {"forms": "panels"}),
    ("blocksparse", {"forms": "tiles", "density_threshold": 0.01}),
]
MODELS = {"agl": ("gcn", "sage", "gat"), "blocksparse": ("gcn", "sage", "gat", "sgc", "ngcn", "lightgcn")}
CASES = [
    (name, options, model)
    for name, options in ENGINES
    for model in MODELS[name]
    if options.get("unpartitioned") != "scattered" or model != "gat"  # torch draws its masks of attention
]


def trainer_of(graph, name, options, model, heads=2, **training):
    spec = ModelSpec(model, 2, graph.width, 16, graph.classes, heads=heads if model == "gat" else 1)
    engine = runtime(resolve(config_class(name)(**options), []), "train")
    drops = {"dropout": 0.4, "attention_dropout": 0.3 if model == "gat" else 0.0, "seed": 5, "threads": 2}
    settings = TrainingSpec(**(drops | training))
    engine.prepare(graph, spec, settings, initial_state(spec, 0), BatchPlan(graph.nodes_of("train")), PlainClock())
    return engine


def trained(engine, epochs=4):
    """Losses of some epochs, and the parameters after them, which a second training from the start repeats."""
    losses = []
    for _ in range(2):
        engine.load(initial_state(engine.spec, 0))
        losses.append([engine.epoch(epoch, PlainClock()) for epoch in range(epochs)])
    assert losses[0] == losses[1]
    return losses[0], engine.state()


def assert_same(recorded_engine, computed_engine):
    losses, state = trained(recorded_engine)
    expected, expected_state = trained(computed_engine)
    assert recorded_engine.facts()["captured"] and not computed_engine.facts()["captured"]
    assert losses == expected
    for name, values in expected_state.items():
        np.testing.assert_array_equal(state[name], values, err_msg=name)


@pytest.mark.parametrize(
    ("case", "kind"),
    [(case, kind) for case in CASES for kind in ("sparse", "dense", "multilabel") if kind == "sparse" or not case[1]],
    ids=str,
)
def test_recorded_steps_train_to_the_same_bits(case, kind):
    graph = awkward_graph(3, multilabel=True) if kind == "multilabel" else sparse_graph()[kind == "dense"]
    name, options, model = case
    assert_same(*(trainer_of(graph, name, options | {"capture": capture}, model) for capture in (True, False)))


@pytest.mark.parametrize(
    "training",
    [{"dropout": 0.0}, {"threads": 1}, {"optimizer": "sgd"}, {"dropout": 0.9}, {"dtype": "float64"}],
    ids=str,
)
@pytest.mark.parametrize("model", ["gcn", "sage", "gat"])
def test_also_under_other_settings_of_the_training(model, training):
    graph, name = sparse_graph()[0], "blocksparse" if "dtype" in training else "agl"
    assert_same(*(trainer_of(graph, name, {"capture": capture}, model, **training) for capture in (True, False)))


def test_other_targets_and_predictions_between_epochs_change_nothing():
    graph = sparse_graph()[0]
    engines = [trainer_of(graph, "blocksparse", {"capture": capture}, "gat") for capture in (True, False)]
    losses = [[], []]
    for engine, own in zip(engines, losses, strict=True):
        for epoch in range(5):
            own.append(engine.epoch(epoch, PlainClock()))
            engine.loss_and_gradients(graph.nodes_of("train")[:9])
            engine.predict(graph, np.arange(graph.nodes))
    assert losses[0] == losses[1]
    assert engines[0].facts()["captured"]


@pytest.mark.parametrize("options", [{}, {"resample": True}], ids=str)
def test_mini_batches_and_new_samples_are_computed(options):
    graph = sparse_graph()[0]
    spec = ModelSpec("gcn", 2, graph.width, 16, graph.classes, fanouts=(2, 2))
    engine = runtime(resolve(config_class("agl")(**options), []), "train")
    plan = BatchPlan(graph.nodes_of("train"), None if options else 9)
    engine.prepare(graph, spec, TrainingSpec(threads=1), initial_state(spec, 0), plan, PlainClock())
    losses = [engine.epoch(epoch, PlainClock()) for epoch in range(3)]
    assert len(set(losses)) == 3
    assert options or not engine.facts()["captured"]


class Dropping(nn.Module):
    """A network whose dropout is drawn anew in each step."""

    epoch = 0

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(50, 3))

    def loss(self) -> torch.Tensor:
        return nn.functional.dropout(self.weight, 0.5).square().sum()


def test_a_step_that_draws_anew_is_not_repeated():
    model = Dropping()
    assert captured(model, model.loss) is None
    model.eval()
    assert captured(model, lambda: (model.weight * (1.0 + model.epoch)).sum()) is None, "torch does not know the epoch"
    assert captured(model, lambda: (model.weight * float(model.weight.detach().sum())).sum()) is None, (
        "a number of Python's"
    )
    assert captured(model, lambda: (model.weight @ model.weight.T).relu().sum()) is not None
    assert torch.equal(model.weight, torch.ones(50, 3))
    assert model.weight.grad is None
    assert model.epoch == 0


def test_the_extension_is_itself_again_after_a_recording_that_fails():
    function = extension.spmm
    with pytest.raises(ZeroDivisionError), recorded():
        assert extension.spmm is not function
        _ = 1 / 0
    assert extension.spmm is function
