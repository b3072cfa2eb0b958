"""The gate of models: right engines pass, wrong ones are caught, sampling engines are checked on their samples."""

from dataclasses import replace

import numpy as np
import pytest

from backends.ablation import resolve
from backends.contract import Unsupported
from backends.dummy.network import NumpyNetwork, loss_and_gradient
from backends.model import ModelSpec, initial_state
from backends.reference import definition
from backends.reference.arithmetic import Arithmetic
from backends.registry import config_class
from datasets.graph import MISSING
from harness.planning.schema import DatasetConfig, ModelConfig, RunConfig, ScenarioConfig, TrainingConfig
from harness.scenario import SCENARIOS
from harness.verify import GATES, gate_of
from harness.verify.comparison import ALLOWED, TRIES, UNITS, compare
from harness.verify.graphs import small_graph
from harness.verify.models import ModelSubject, verify_model
from harness.verify.outcome import Incorrect

MODELS = ("gcn", "sage", "gat")


def config(model="gcn", scenario="train", batch_size=None, **backend):
    return RunConfig(
        dataset=DatasetConfig("tiny"),
        model=ModelConfig(model, hidden=8, heads=2),
        backend=config_class("dummy")(**backend),
        training=TrainingConfig(batch_size=batch_size, dropout=0.5),
        scenario=ScenarioConfig(scenario),
        threads=1,
    )


@pytest.mark.parametrize("task", ["multiclass", "multilabel"])
@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("batch_size", [None, 16])
def test_a_right_engine_passes(model, task, batch_size):
    graph = small_graph(task, 4, weighted=model == "gcn", nodes=150)
    parity = verify_model(config(model, batch_size=batch_size), graph)
    assert len(parity) == (5 if batch_size is None else 6)
    assert all(part["forward"] <= ALLOWED and part["gradient"] <= ALLOWED for part in parity.values())
    assert all(part["tries"] == 1 for part in parity.values())


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("scenario", ["train", "infer"])
def test_a_wrong_engine_is_caught(model, scenario):
    graph = small_graph("multiclass", 4, weighted=False, nodes=150)
    with pytest.raises(Incorrect, match="disagrees with the definition on small graph") as caught:
        verify_model(config(model, scenario, fail="wrong"), graph)
    worst = caught.value.parity["small graph"]
    assert max(worst["forward"], worst["gradient"]) > ALLOWED
    assert worst["tries"] == (TRIES if scenario == "train" else 1)


@pytest.mark.parametrize("model", MODELS)
def test_inference_is_compared_too(model):
    parity = verify_model(config(model, "infer"), small_graph("multiclass", 4, weighted=False, nodes=150))
    assert all(part["gradient"] == 0.0 and part["forward"] <= ALLOWED for part in parity.values())


def test_inductive_sets_are_compared_on_their_first_graph():
    graph = small_graph("multilabel", 4, weighted=False, nodes=150)
    ids = (np.arange(150) >= 50).astype(np.int32)
    graph = replace(graph, inductive=True, graph_ids=ids, split=np.where(ids == 0, 0, 1).astype(np.int8))
    parity = verify_model(config(), graph)
    assert parity["first graph"]["nodes"] == 50


def test_a_first_graph_without_labels_is_not_what_is_trained():
    graph = small_graph("multilabel", 4, weighted=False, nodes=150)
    ids = (np.arange(150) >= 50).astype(np.int32)
    labels = np.where(ids[:, np.newaxis] == 0, MISSING, graph.labels)
    graph = replace(graph, inductive=True, graph_ids=ids, labels=labels, split=np.zeros(150, dtype=np.int8))
    parity = verify_model(config(batch_size=16), graph)
    assert "first graph" not in parity and "neighbourhood of 16 targets" in parity
    assert "first graph" in verify_model(config("gcn", "infer"), graph)


@pytest.mark.parametrize("head", ["none", "linear"])
@pytest.mark.parametrize("multilabel", [False, True])
@pytest.mark.parametrize("model", MODELS)
def test_the_dummy_engine_computes_the_definition(model, multilabel, head):
    graph = small_graph("multilabel" if multilabel else "multiclass", 4, weighted=model == "gcn")
    spec = ModelSpec(model, 3, graph.width, 8, 4, heads=3, output_heads=2, head=head)
    state, targets = initial_state(spec, 1), graph.nodes_of("train")
    logits, loss, gradients = definition.loss_and_gradients(graph, spec, state, targets)
    network = NumpyNetwork(graph, spec)
    output = network.forward(state)
    value, gradient = loss_and_gradient(output[targets], graph.labels[targets])
    above = np.zeros_like(output)
    above[targets] = gradient
    np.testing.assert_allclose(output[targets], logits, rtol=1e-5, atol=1e-7)
    assert value == pytest.approx(loss, rel=1e-5)
    for name, value in network.backward(above).items():
        np.testing.assert_allclose(value, gradients[name], rtol=1e-5, atol=1e-7 * np.abs(gradients[name]).max())


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("scenario", ["train", "infer"])
def test_engines_that_draw_the_definitions_samples_are_checked_on_them(model, scenario):
    graph = small_graph("multiclass", 4, weighted=model == "gcn", nodes=150)
    sampled = replace(config(model, scenario, batch_size=16), backend=resolve(config_class("agl")(scope="target"), []))
    sampled.model.fanouts = [2, 3]
    parity = verify_model(sampled, graph)
    assert parity.pop("not verified") == {"scope": "target"}
    assert all(part["forward"] <= ALLOWED and part["gradient"] <= ALLOWED for part in parity.values())

    def drawn(subject):
        return subject.definition(0, Arithmetic())[0]

    engine = ModelSubject(sampled, graph)
    other = ModelSubject(replace(sampled, seed=1), graph)
    assert engine.spec.fanouts == (2, 3) and not np.allclose(drawn(engine), drawn(other), rtol=1e-3)


def test_engines_that_cannot_draw_the_samples_are_checked_on_all_neighbours():
    sampled = config("sage", batch_size=16)
    sampled.model.fanouts = [2, 3]
    graph = small_graph("multiclass", 4, weighted=False, nodes=150)
    assert ModelSubject(sampled, graph).spec.fanouts == ()
    assert verify_model(sampled, graph)["small graph"]["tries"] == 1


@pytest.mark.parametrize("scenario", ["train", "infer"])
@pytest.mark.parametrize("options", [{"sampler": "weighted(by=weight, limit=3)"}, {"filter": "weight > 1"}])
def test_weights_that_only_sampling_reads_do_not_stop_the_gate(options, scenario):
    graph = small_graph("multiclass", 4, weighted=True, nodes=150)
    engine = resolve(config_class("agl")(**options), [])
    cell = replace(config("sage", scenario, batch_size=16), backend=engine)
    parity = verify_model(cell, graph)
    assert parity.pop("not verified") == options, "the gate has the definition's draws instead"
    assert len(parity) == (6 if scenario == "train" else 2)


def test_more_workers_than_the_small_graph_has_targets_are_compared_with_fewer():
    engine = resolve(config_class("agl")(strategy="sync", workers=20, servers=0), [])
    cell = replace(config(), backend=engine, training=TrainingConfig(batch_size=8))
    compared = compare(ModelSubject(cell, small_graph("multiclass", 4, weighted=False)), 0, UNITS["float32"])
    assert not compared["wrong"]


def test_every_scenario_has_a_gate():
    assert set(GATES) == set(SCENARIOS) and all(callable(gate_of(name)) for name in GATES)
    with pytest.raises(Unsupported, match="allowed are train, infer"):
        gate_of("embed")
