"""sgc, ngcn and lightgcn: the definition against the papers' formulas, every engine against the definition."""

from dataclasses import replace

import numpy as np
import pytest

from backends.ablation import resolve
from backends.base.propagation import steps_of
from backends.batches import BatchPlan
from backends.model import ModelSpec, TrainingSpec, initial_state
from backends.model_names import PROPAGATIONS
from backends.reference.definition import scores
from backends.registry import MODULES, config_class, runtime
from datasets.csr import csr_from_edges
from harness.planning.schema import DatasetConfig, ModelConfig, RunConfig, ScenarioConfig, TrainingConfig
from harness.verify.comparison import ALLOWED
from harness.verify.dropout import verify_dropout
from harness.verify.graphs import small_graph, with_few_features
from harness.verify.models import verify_model
from tests.contract.test_parity import PlainClock
from tests.graphs import awkward_graph

ENGINES = [
    ("blocksparse", {}),
    ("reference", {}),
    ("reference", {"variant": "cached", "input": "cached"}),
    ("reference", {"input": "sparse"}),
    *[("pyg", {"variant": variant}) for variant in ("best", "edge_index", "scatter")],
    ("pyg", {"input": "sparse"}),
    ("dgl", {}),
    ("dgl", {"input": "sparse"}),
]


def matrix(graph, loops):
    """S as a dense array, straight from its formula."""
    a = np.zeros((graph.nodes, graph.nodes))
    weights = np.ones(graph.csr.nnz) if graph.edge_weights is None else graph.edge_weights.astype(np.float64)
    np.add.at(a, (graph.csr.destinations, graph.csr.indices), weights)
    a += loops * np.eye(graph.nodes)
    scale = np.array([degree**-0.5 if degree > 0 else 0.0 for degree in a.sum(1)])
    return scale[:, None] * a * scale


def published(graph, spec, state):
    x, w = graph.features.astype(np.float64), {name: value.astype(np.float64) for name, value in state.items()}
    s, powers = matrix(graph, spec.name != "lightgcn"), np.linalg.matrix_power
    if spec.name == "sgc":
        return powers(s, spec.layers) @ x @ w["layers.0.weight"] + w["layers.0.bias"]
    if spec.name == "lightgcn":
        return np.mean([powers(s, k) @ x @ w["layers.0.weight"] for k in range(spec.layers + 1)], 0)
    instances = []
    for k in range(spec.layers):
        hidden = np.maximum(powers(s, k) @ x @ w[f"layers.{k}.weight"], 0)
        instances.append(powers(s, k) @ hidden @ w[f"layers.{k}.weight_out"])
    last = f"layers.{spec.layers - 1}."
    return np.concatenate(instances, 1) @ w[last + "combine"] + w[last + "bias"]


def state_of(spec):
    return {name: value + 0.1 for name, value in initial_state(spec, 3).items()}


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("layers", [1, 2, 4])
@pytest.mark.parametrize("model", PROPAGATIONS)
def test_the_definition_is_the_published_formula(model, layers, weighted):
    graph = awkward_graph(3, weighted=weighted)
    spec = ModelSpec(model, layers, graph.width, 5, graph.classes)
    expected = published(graph, spec, state_of(spec))
    np.testing.assert_allclose(scores(graph, spec, state_of(spec), np.arange(graph.nodes)), expected, rtol=1e-6)


def cell(backend, options, model, scenario="train", **training):
    return RunConfig(
        dataset=DatasetConfig("tiny"),
        model=ModelConfig(model, layers=3, hidden=6),
        backend=resolve(config_class(backend)(**options), []),
        training=TrainingConfig(**training),
        scenario=ScenarioConfig(scenario),
        threads=1,
    )


@pytest.mark.parametrize("scenario", ["train", "infer"])
@pytest.mark.parametrize(("backend", "options"), ENGINES)
@pytest.mark.parametrize("model", PROPAGATIONS)
def test_engines_pass_the_gate(model, backend, options, scenario):
    graph = small_graph("multilabel", 4, weighted=True, nodes=150)
    graph = with_few_features(graph) if "input" in options else graph
    parity = verify_model(cell(backend, options, model, scenario), graph)
    assert all(part["forward"] <= ALLOWED and part["gradient"] <= ALLOWED for part in parity.values())


@pytest.mark.parametrize(("backend", "options"), [ENGINES[0], ENGINES[1], ENGINES[4], ENGINES[8]])
@pytest.mark.parametrize("model", PROPAGATIONS)
def test_the_gate_of_dropout_finds_their_masks(model, backend, options):
    parity = verify_dropout(cell(backend, options, model, dropout=0.4), sparse=False)
    assert parity["dropout"]["forward"] <= ALLOWED and abs(parity["dropout"]["rate"] - 0.4) < 0.05


@pytest.mark.parametrize("width", [2, 50])
@pytest.mark.parametrize("model", PROPAGATIONS)
def test_facts_name_every_product(model, width):
    graph = awkward_graph(1, width=width)
    spec = ModelSpec(model, 3, width, 5, graph.classes)
    sizes = []
    for backend in ("blocksparse", "reference"):
        trainer = runtime(resolve(config_class(backend)(), []), "train")
        plan = BatchPlan(graph.nodes_of("train"))
        trainer.prepare(graph, spec, TrainingSpec(threads=1), initial_state(spec, 0), plan, PlainClock())
        sizes.append([(product["name"], product["width"]) for product in trainer.facts()["spmm"]])
        assert trainer.facts()["dense_flops"] > 0
        trainer.close()
    steps = steps_of(spec, is_sparse=False)
    assert sizes[0] == sizes[1] and len(sizes[0]) == sum(1 + step.has_backward for step in steps)
    assert len(steps) == (4 if model == "ngcn" else 3)


@pytest.mark.parametrize("model", PROPAGATIONS)
def test_few_nodes_and_no_edges_work(model):
    graph = awkward_graph(1, nodes=7, edges=0)
    nobody = np.empty(0, dtype=np.int64)
    alone = replace(graph, csr=csr_from_edges(nobody, nobody, (7, 7)))
    for case in (graph, alone):
        spec = ModelSpec(model, 2, case.width, 5, case.classes, head="linear")
        trainer = runtime(resolve(config_class("blocksparse")(), []), "train")
        trainer.prepare(case, spec, TrainingSpec(threads=1), state_of(spec), BatchPlan(np.arange(7)), PlainClock())
        expected = scores(case, spec, state_of(spec), np.arange(7))
        np.testing.assert_allclose(trainer.predict(case, np.arange(7)), expected, rtol=1e-5, atol=1e-6)
        trainer.close()


@pytest.mark.parametrize("backend", MODULES)
def test_what_does_not_run_whole_graphs_says_so(backend):
    config = config_class(backend)()
    for scenario, full_batch in (("train", False), ("spmm", True), ("sample", True), ("flatten", True)):
        assert config.unsupported(scenario, "sgc", "cpu", full_batch) is not None
    if backend in ("pyg", "dgl"):
        message = config_class(backend)(infer="layerwise").unsupported("infer", "sgc", "cpu", True)
        assert "over whole graphs" in message
