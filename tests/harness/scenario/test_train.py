"""The accuracy pass: the best epoch, patience, and the scores of its state."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from backends.registry import config_class
from harness.measure.clock import Clock
from harness.planning.schema import DatasetConfig, ModelConfig, RunConfig, ScenarioConfig, TrainingConfig
from harness.scenario import scenario_class
from harness.scenario.train import ValidationCurve, thinned
from harness.verify.graphs import small_graph

POINTS = st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3)), min_size=1, max_size=30)


def config(scenario="train", training=None, **named):
    return RunConfig(
        dataset=DatasetConfig("tiny"),
        model=ModelConfig("gcn", hidden=8),
        backend=config_class("dummy")(learn=True),
        training=TrainingConfig(**{"epochs": 12, "rate": 0.5} | (training or {})),
        scenario=ScenarioConfig(scenario, **named),
    )


def trained(graph, **named):
    scenario = scenario_class("train")(config(**named), graph)
    scenario.prepare(Clock(), None)
    return scenario, scenario.accuracy(lambda epoch, score: None)


@given(POINTS, st.integers(0, 4))
def test_the_best_epoch_has_the_best_score_then_the_lowest_loss_then_comes_first(points, target):
    curve = ValidationCurve(target)
    for epoch, (loss, score) in enumerate(points, 1):
        curve.add(epoch, loss, score, lambda epoch=epoch: {"at": np.array([epoch])})
    best = min(range(len(points)), key=lambda i: (-points[i][1], points[i][0], i))
    assert curve.best_epoch == best + 1
    assert curve.best_state["at"] == best + 1
    assert curve.epochs_to_target == next((i + 1 for i, (_, score) in enumerate(points) if score >= target), None)


@given(st.integers(1, 3000), st.data())
def test_long_curves_are_thinned_but_keep_their_best_and_last_point(length, data):
    best = data.draw(st.integers(1, length))
    points = thinned([[epoch, 0.0, 0.0] for epoch in range(1, length + 1)], best)
    epochs = [point[0] for point in points]
    assert len(points) <= 202
    assert best in epochs and length in epochs and epochs == sorted(set(epochs))
    assert len(points) == length or length > 200


def test_scores_are_those_of_the_best_state(tmp_path):
    graph = small_graph("multiclass", 4, weighted=False, nodes=200)
    path = tmp_path / "states" / "best.npz"
    _, answer = trained(graph, save_state=str(path))
    metrics = answer["metrics"]
    best = next(point for point in answer["validation"] if point[0] == metrics["best_epoch"])
    assert metrics["validation"] == best[2] == max(point[2] for point in answer["validation"])
    again = scenario_class("infer")(config("infer", state=str(path)), graph)
    again.prepare(Clock(), None)
    again.run(0, Clock())
    assert {key: again.metrics()[key] for key in ("train", "validation", "test")} == {
        key: metrics[key] for key in ("train", "validation", "test")
    }


def test_trained_parameters_have_no_score_where_no_labelled_node_is_in_a_split(tmp_path):
    graph = small_graph("multiclass", 4, weighted=False)
    path = tmp_path / "best.npz"
    trained(graph, save_state=str(path))
    unsplit = scenario_class("infer")(config("infer", state=str(path)), replace(graph, split=None))
    unsplit.prepare(Clock(), None)
    unsplit.run(0, Clock())
    assert unsplit.metrics() is None


def test_the_pass_starts_from_the_initial_state_whatever_was_timed_before():
    graph = small_graph("multiclass", 4, weighted=False, nodes=200)
    scenario, first = trained(graph)
    assert scenario.accuracy(lambda epoch, score: None) == first


@pytest.mark.parametrize("every", [1, 3])
def test_patience_counts_epochs_since_the_best(every):
    graph = small_graph("multiclass", 4, weighted=False, nodes=200)
    _, answer = trained(graph, training={"rate": 0.0, "epochs": 50, "patience": 6, "evaluate_every": every})
    assert answer["metrics"]["best_epoch"] == every
    assert answer["metrics"]["epochs_run"] == every + 6
    assert len(answer["validation"]) == 1 + 6 // every


def test_patience_does_not_end_before_the_first_evaluation():
    graph = small_graph("multiclass", 4, weighted=False, nodes=200)
    _, answer = trained(graph, training={"epochs": 50, "rate": 0.0, "patience": 2, "evaluate_every": 5})
    assert (answer["metrics"]["best_epoch"], answer["metrics"]["epochs_run"]) == (5, 10)


def test_a_diverging_loss_is_an_error():
    graph = small_graph("multiclass", 4, weighted=False, nodes=200)
    graph = replace(graph, features=graph.features * np.float32(np.nan))
    with pytest.raises(ValueError, match="lower training"):
        trained(graph)


def test_a_data_set_without_training_nodes_is_refused():
    graph = replace(small_graph("multiclass", 4, weighted=False), split=None)
    with pytest.raises(ValueError, match="no labelled training nodes"):
        scenario_class("train")(config(), graph)
