"""Every wrong engine of a list is caught by the gate of models or by that of dropout; its right twin passes."""

import numpy as np
import pytest

from harness.planning.schema import DatasetConfig, ModelConfig, RunConfig, ScenarioConfig, TrainingConfig
from harness.verify.dropout import verify_dropout
from harness.verify.graphs import small_graph
from harness.verify.models import verify_model
from harness.verify.outcome import Incorrect
from tests.harness.verify.wrong_engines import ALL, INFERENCE, WRONG, WRONG_DROPOUT, MutantConfig


def cases(mistakes):
    """Each mistake in one model, and in the other ones where slow tests run."""
    return [
        pytest.param(wrong, model, id=f"{wrong}-{model}", marks=[] if model == models[0] else [pytest.mark.slow])
        for wrong, models in mistakes.items()
        for model in models
    ]


def config(wrong, model, scenario="train", dropout=0.0, fanouts=(), layers=3, dtype="float32"):
    return RunConfig(
        dataset=DatasetConfig("tiny"),
        model=ModelConfig(model, layers=layers, hidden=4, heads=2, output_heads=2, fanouts=list(fanouts)),
        backend=MutantConfig(wrong=wrong),
        training=TrainingConfig(dropout=dropout, attention_dropout=dropout, dtype=dtype),
        scenario=ScenarioConfig(scenario),
        threads=1,
    )


def graph_for(wrong, model):
    """A graph on which a mistake shows: most do on any."""
    graph = small_graph("multiclass", 8, weighted=model == "gcn", nodes=150)
    if wrong == "softmax without maximum":
        object.__setattr__(graph, "features", graph.features * np.float32(100))
    return graph


def verify(wrong, model, scenario="train"):
    fanouts = (2, 3, 2) if "fanouts" in wrong or "sample" in wrong else ()
    return verify_model(config(wrong, model, scenario, fanouts=fanouts), graph_for(wrong, model))


def test_the_list_is_long():
    assert len(WRONG) + len(WRONG_DROPOUT) >= 50


@pytest.mark.parametrize(("wrong", "model"), cases(WRONG))
def test_a_wrong_engine_is_caught(wrong, model):
    with pytest.raises(Incorrect):
        verify(wrong, model)


@pytest.mark.parametrize("scenario", ["train", "infer"])
@pytest.mark.parametrize("model", ALL)
@pytest.mark.parametrize("wrong", ["", "right, with fanouts"])
def test_the_right_twin_passes(wrong, model, scenario):
    assert all(part["tries"] == 1 for part in verify(wrong, model, scenario).values())


@pytest.mark.parametrize("model", ALL)
@pytest.mark.parametrize("wrong", INFERENCE)
def test_wrong_inference_is_caught(wrong, model):
    with pytest.raises(Incorrect):
        verify_model(config(wrong, model, "infer", dropout=0.5), graph_for(wrong, model))


@pytest.mark.parametrize(("wrong", "model"), cases(WRONG_DROPOUT))
def test_a_wrong_dropout_is_caught(wrong, model):
    with pytest.raises(Incorrect, match=r"dropout|prediction"):
        verify_dropout(config(wrong, model, dropout=0.3))


@pytest.mark.parametrize("rate", [pytest.param(0.05, marks=pytest.mark.slow), 0.6])
@pytest.mark.parametrize("model", ALL)
def test_right_dropout_passes(model, rate):
    parity = verify_dropout(config("", model, dropout=rate))
    assert len(parity) == (4 if model == "gat" else 2)
    assert parity["dropout"]["rate"] == pytest.approx(rate, abs=0.05) and parity["dropout"]["entries"] > 5000


@pytest.mark.parametrize("model", ALL)
@pytest.mark.parametrize(("dtype", "rounded"), [("tf32", "tf32 products"), ("bf16", "bf16 sums")], ids=["tf32", "bf16"])
def test_right_dropout_in_lower_precision_passes(dtype, rounded, model):
    # of one layer: inputs of a ReLU have another sign too often in these types
    parity = verify_dropout(config(rounded, model, dropout=0.3, layers=1, dtype=dtype))
    assert parity["dropout"]["rate"] == pytest.approx(0.3, abs=0.05)


@pytest.mark.parametrize("dtype", ["tf32", "bf16"])
@pytest.mark.parametrize("wrong", ["dropout ignored", "dropout not scaled", "dropout makes NaN"])
def test_a_wrong_dropout_is_caught_in_lower_precision(wrong, dtype):
    with pytest.raises(Incorrect, match="dropout"):
        verify_dropout(config(wrong, "gcn", dropout=0.3, layers=1, dtype=dtype))
