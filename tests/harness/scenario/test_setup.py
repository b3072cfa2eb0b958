"""State files: written, read back, refused for another model."""

import resource
from dataclasses import replace

import numpy as np
import pytest

from backends.model import initial_state
from harness.planning.schema import ScenarioConfig
from harness.scenario import scenario_class
from harness.scenario.setup import load_state, save_state, spec_of
from harness.verify.graphs import small_graph
from tests.harness.scenario.test_train import config


@pytest.mark.parametrize("suffix", [".npz", ".safetensors"])
def test_states_survive_a_file(tmp_path, suffix):
    state = {"layers.0.weight": np.arange(6, dtype=np.float32).reshape(2, 3), "layers.0.bias": np.ones(3, np.float32)}
    save_state(tmp_path / f"state{suffix}", state)
    loaded = load_state(tmp_path / f"state{suffix}")
    assert set(loaded) == set(state)
    assert all((loaded[name] == value).all() and loaded[name].dtype == value.dtype for name, value in state.items())
    assert [path.name for path in tmp_path.iterdir()] == [f"state{suffix}"]


@pytest.mark.parametrize("suffix", [".npz", ".safetensors"])
def test_a_state_that_cannot_be_written_leaves_the_file_before_it_and_nothing_else(tmp_path, suffix):
    path = tmp_path / f"best{suffix}"
    path.write_bytes(b"before")
    unlimited = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 12, unlimited[1]))  # as a disk that is full
    try:
        with pytest.raises(Exception, match="File too large"):
            save_state(path, {"layers.0.weight": np.ones((100, 100), np.float32)})
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, unlimited)
    assert [(file.name, file.read_bytes()) for file in tmp_path.iterdir()] == [(path.name, b"before")]


def test_a_state_of_another_model_is_refused(tmp_path):
    save_state(tmp_path / "state.npz", {"layers.0.weight": np.ones((2, 2), np.float32)})
    graph = small_graph("multiclass", 4, weighted=False)
    with pytest.raises(ValueError, match="train it with this model"):
        scenario_class("train")(config(state=str(tmp_path / "state.npz")), graph)


def test_parameters_that_are_not_those_of_the_plan_are_refused(tmp_path):
    save_state(tmp_path / "state.npz", {"layers.0.weight": np.ones((2, 2), np.float32)})
    planned = config(state=str(tmp_path / "state.npz"), state_sha256="ab" * 32)
    with pytest.raises(ValueError, match="is not the file that was planned"):
        scenario_class("train")(planned, small_graph("multiclass", 4, weighted=False))


def inference(model, state):
    run = config(state=state)
    return replace(run, scenario=ScenarioConfig(name="infer", state=state), model=replace(run.model, name=model))


def test_without_labels_and_a_trained_model_the_number_of_classes_is_asked_for():
    unlabelled = replace(small_graph("multiclass", 4, weighted=False), labels=None, classes=0, split=None, task="none")
    with pytest.raises(ValueError, match=r"has no labels, so that the number of classes is unknown: .*scenario\.state"):
        scenario_class("infer")(inference("gat", None), unlabelled)


@pytest.mark.parametrize("model", ["gcn", "sage", "gat", "sgc", "ngcn", "lightgcn"])
def test_a_trained_model_may_know_more_classes_than_the_labels_of_a_graph(tmp_path, model):
    labelled, path = small_graph("multiclass", 4, weighted=False), str(tmp_path / "state.npz")
    trained = spec_of(inference(model, None), replace(labelled, classes=7))
    save_state(tmp_path / "state.npz", initial_state(trained, 0))
    for graph in (labelled, replace(labelled, labels=None, classes=0, split=None, task="none")):
        scenario = scenario_class("infer")(inference(model, path), graph)
        assert scenario.spec == trained
        scenario.logits = np.eye(7, dtype=np.float32)[np.arange(graph.nodes) % 7]
        assert (scenario.metrics() is None) == (graph.labels is None)
    with pytest.raises(ValueError, match="train it with this model"):
        scenario_class("infer")(inference(model, path), replace(labelled, classes=8))
