"""The gate's check of whole epochs: wrong ones are caught, right ones pass whoever composes their batches."""

import pytest

from backends.ablation import resolve
from backends.registry import config_class
from harness.verify.epochs import NAME, verify_epochs
from harness.verify.outcome import Incorrect
from tests.harness.verify.test_steps import ENGINES, GRAPH, LABEL_SETS, config
from tests.harness.verify.wrong_steps import WRONG_EPOCHS, WrongStepsConfig

FANOUTS = [2, 3]
SAMPLERS = [
    ("agl", {}),
    ("agl", {"resample": True}),
    ("agl", {"source": "graphfeature", "strategy": "sync", "workers": 2, "servers": 0}),
    ("pyg", {"loader": "khop"}),
    pytest.param("dgl", {}, marks=pytest.mark.needs_dgl),
]


@pytest.mark.parametrize("wrong", WRONG_EPOCHS)
def test_wrong_epochs_are_caught(wrong):
    with pytest.raises(Incorrect, match="2 epochs"):
        verify_epochs(config(WrongStepsConfig(wrong=wrong), "sage", fanouts=FANOUTS), GRAPH)


@pytest.mark.parametrize("model", ["gcn", "sage", "gat"])
@pytest.mark.parametrize("size", [1, 5, 1024])
def test_the_right_twin_passes(model, size):
    cell = config(WrongStepsConfig(), model, batch_size=size, fanouts=FANOUTS, decay=0.01)
    assert verify_epochs(cell, LABEL_SETS)[NAME]["tries"] == 1


@pytest.mark.parametrize("graph", [GRAPH, LABEL_SETS], ids=["one label", "label sets"])
@pytest.mark.parametrize(("name", "options"), ENGINES, ids=str)
def test_engines_pass_in_whatever_order_workers_come(name, options, graph):
    assert verify_epochs(config(resolve(config_class(name)(**options), [])), graph)[NAME]["tries"] == 1


@pytest.mark.parametrize(("name", "options"), SAMPLERS, ids=str)
def test_epochs_are_compared_on_the_definitions_edges_where_an_engine_draws_those(name, options):
    cell = config(resolve(config_class(name)(**options), []), "sage", batch_size=8, fanouts=FANOUTS)
    assert verify_epochs(cell, GRAPH)[NAME]["tries"] == 1


def test_full_batches_are_left_to_the_check_of_steps():
    assert verify_epochs(config(WrongStepsConfig(), batch_size=None), GRAPH) == {}
