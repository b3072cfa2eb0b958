"""The gate's check of training steps: wrong epochs and predictions are caught, those of right engines pass."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pytest

from backends.ablation import resolve
from backends.registry import config_class
from harness.planning.schema import DatasetConfig, ModelConfig, RunConfig, ScenarioConfig, TrainingConfig
from harness.verify.graphs import small_graph
from harness.verify.moves import moves_of
from harness.verify.outcome import Incorrect
from harness.verify.steps import NAME, verify_steps, verify_tried
from tests.harness.verify.wrong_engines import ALL
from tests.harness.verify.wrong_steps import WRONG_STEPS, WrongStepsConfig, WrongStepsTrainer

GRAPH = small_graph("multiclass", 4, weighted=False)
LABEL_SETS = small_graph("multilabel", 4, weighted=False)
ENGINES = [
    ("agl", {"source": "graphfeature"}),
    *(
        ("agl", {"source": "graphfeature", "strategy": "sync", "workers": workers, "servers": 0})
        for workers in (2, 3, 4)
    ),
    ("agl", {"strategy": "sync", "workers": 2, "servers": 0}),
    ("agl", {"strategy": "allreduce", "workers": 2}),
    ("agl", {"strategy": "async", "workers": 2, "servers": 0}),
    ("dgl", {}),
    ("pyg", {"loader": "khop"}),
]


def config(backend, model="gcn", optimizer="adam", batch_size=1024, fanouts=(), **training):
    return RunConfig(
        dataset=DatasetConfig("tiny"),
        model=ModelConfig(model, layers=2, hidden=4, heads=2, fanouts=list(fanouts)),
        backend=backend,
        training=TrainingConfig(batch_size=batch_size, optimizer=optimizer, **training),
        scenario=ScenarioConfig("train"),
        threads=1,
    )


WITHOUT_MOMENTS = [wrong for wrong in WRONG_STEPS if wrong != "moments start anew"]


@pytest.mark.parametrize(
    ("wrong", "optimizer"),
    [
        *((wrong, "adam") for wrong in WRONG_STEPS),
        *(pytest.param(wrong, "sgd", marks=pytest.mark.slow) for wrong in WITHOUT_MOMENTS),
    ],
)
def test_wrong_steps_are_caught(wrong, optimizer):
    mutant = config(WrongStepsConfig(wrong=wrong), "sage", optimizer, decay=0.01, decay_on="first")
    with pytest.raises(Incorrect, match="steps"):
        verify_steps(mutant, GRAPH)


@pytest.mark.parametrize("decay_on", ["all", "first"])
@pytest.mark.parametrize("optimizer", ["adam", "sgd"])
@pytest.mark.parametrize("model", ALL)
def test_the_right_twin_passes(model, optimizer, decay_on):
    parity = verify_steps(config(WrongStepsConfig(), model, optimizer, decay=0.01, decay_on=decay_on), GRAPH)
    assert parity[NAME]["tries"] == 1 and "wrong" not in parity[NAME]


@dataclass
class LiveConfig(WrongStepsConfig):
    """The right trainer, whose state is its parameters themselves."""

    runtimes: ClassVar[dict[str, str]] = {"train": f"{__name__}:LiveTrainer"}


class LiveTrainer(WrongStepsTrainer):
    """Shows its parameters instead of copying them."""

    def state(self):
        return {name: parameter.detach().numpy() for name, (parameter, _) in self.model.canonical().items()}


@pytest.mark.parametrize("optimizer", ["adam", "sgd"])
def test_an_engine_may_show_its_own_parameters(optimizer):
    assert verify_steps(config(LiveConfig(), optimizer=optimizer), GRAPH)[NAME]["tries"] == 1


class Unsteady:
    """What is wrong in some of its tries."""

    graph = GRAPH

    def __init__(self, name, wrong_in):
        self.name, self.wrong_in, self.tries = name, wrong_in, 0

    def multiples(self, seed):
        self.tries += 1
        right = {"loss of step 1": 1.0, "step of layers.0.bias": 1.0}
        return right | ({self.name: 100.0} if self.tries in self.wrong_in else {})


@pytest.mark.parametrize("name", ["loss of step 1", "predictions"])
def test_a_wrong_forward_pass_is_wrong_at_once(name):
    with pytest.raises(Incorrect, match=name) as caught:
        verify_tried(config(WrongStepsConfig()), NAME, Unsteady(name, (1,)))
    assert caught.value.parity[NAME]["tries"] == 1


@pytest.mark.parametrize("wrong_in", [(), (1,), (1, 2)], ids=str)
def test_a_step_that_is_right_from_one_state_passes(wrong_in):
    parity = verify_tried(config(WrongStepsConfig()), NAME, Unsteady("step of layers.0.bias", wrong_in))
    assert parity[NAME]["tries"] == 1 + len(wrong_in)


def test_a_step_that_is_wrong_from_three_states_is_wrong():
    with pytest.raises(Incorrect, match="step of layers") as caught:
        verify_tried(config(WrongStepsConfig()), NAME, Unsteady("step of layers.0.bias", (1, 2, 3)))
    assert caught.value.parity[NAME]["tries"] == 3


@pytest.mark.parametrize("graph", [GRAPH, LABEL_SETS], ids=["one label", "label sets"])
@pytest.mark.parametrize(("name", "options"), ENGINES, ids=str)
def test_engines_pass_however_they_compose_their_batches(name, options, graph):
    parity = verify_steps(config(resolve(config_class(name)(**options), [])), graph)
    assert bool(parity) == (options.get("strategy") != "async")  # which steps in the order in which workers come


def test_a_step_that_cannot_be_told_from_rounding_is_not_compared():
    training = config(WrongStepsConfig()).training
    (move,) = moves_of(training, 2.0**-24, {"layers.0.bias": np.zeros(2)}).values()
    move.take(np.zeros(2), np.array([1e-9, 1.0]), 1e-8)
    assert move.multiple(np.zeros(2), np.array([0.01, -0.01], dtype=np.float32)) <= 16
    assert move.multiple(np.zeros(2), np.array([-0.01, 0.01], dtype=np.float32)) > 16
