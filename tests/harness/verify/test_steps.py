"""The gate's check of training steps: wrong epochs and predictions are caught, those of right engines pass."""

import numpy as np
import pytest

from backends.ablation import resolve
from backends.registry import config_class
from harness.planning.schema import DatasetConfig, ModelConfig, RunConfig, ScenarioConfig, TrainingConfig
from harness.verify.graphs import small_graph
from harness.verify.moves import moves_of
from harness.verify.outcome import Incorrect
from harness.verify.steps import NAME, verify_steps
from tests.harness.verify.wrong_engines import ALL
from tests.harness.verify.wrong_steps import WRONG_STEPS, WrongStepsConfig

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
