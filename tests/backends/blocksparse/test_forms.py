"""Panels and tiles pass the parity gate where a product uses them, though no trial would choose them on its graphs."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from backends.ablation import resolve
from backends.base.layered import LayerMatrix
from backends.base.layered_trainer import LayeredTrainer
from backends.batches import BatchPlan
from backends.blocksparse import adaptive
from backends.blocksparse.adaptive import LEAST_DENSITY
from backends.blocksparse.pieces import pieces_of
from backends.blocksparse.replay import ReplayWorker
from backends.kernels import panels, tiles
from backends.kernels.operand import operand
from backends.model import ModelSpec, TrainingSpec, initial_state
from backends.parallel.network import NO_NETWORK
from backends.registry import config_class, runtime
from datasets.features import in_layout
from harness.planning.schema import DatasetConfig, ModelConfig, RunConfig, ScenarioConfig, TrainingConfig
from harness.scenario.setup import spec_of
from harness.verify import gate_of
from harness.verify.graphs import small_graph
from harness.verify.outcome import Incorrect
from tests.backends.kernels.test_tiles import blocky_csr
from tests.contract.test_parity import PlainClock

FORMS = ("panels", "tiles")
MODELS = ("gcn", "sage", "sgc", "ngcn", "lightgcn")


def cell(model, forms, scenario="train"):
    density = LEAST_DENSITY if forms == "tiles" else 0.35
    backend = resolve(config_class("blocksparse")(forms=forms, density_threshold=density), [])
    return RunConfig(
        dataset=DatasetConfig("tiny"),
        model=ModelConfig(model, hidden=8),
        backend=backend,
        training=TrainingConfig(dropout=0.0),
        scenario=ScenarioConfig(scenario),
        threads=2,
    )


@pytest.mark.parametrize("forms", FORMS)
@pytest.mark.parametrize("model", MODELS)
def test_a_form_is_used_on_the_gates_graphs_and_passes(model, forms):
    graph = small_graph("multiclass", 4, weighted=model == "gcn", nodes=150)
    config = cell(model, forms)
    spec = spec_of(config, graph)
    engine = runtime(config.backend, "train")
    plan = BatchPlan(graph.nodes_of("train"))
    engine.prepare(graph, spec, TrainingSpec(dropout=0.0), initial_state(spec, 0), plan, PlainClock())
    assert engine.forms[forms] and not engine.forms["panels" if forms == "tiles" else "tiles"]
    tried = replace(config.backend, forms="tried", density_threshold=0.35)
    engine.config = tried
    assert engine.gate_configs() == [tried, config.backend]
    gate_of("train")(config, graph)


@pytest.mark.parametrize("scenario", ["infer", "spmm"])
@pytest.mark.parametrize("forms", FORMS)
def test_other_scenarios_pass_too(forms, scenario):
    gate_of(scenario)(cell("gcn", forms, scenario), small_graph("multiclass", 4, weighted=True, nodes=150))


def test_a_wrong_cut_is_caught(monkeypatch):
    cut = panels.cut_panels

    def without_the_last_panel(*arguments):
        starts = cut(*arguments)
        starts[-1] = starts[-2]
        return starts

    monkeypatch.setattr(panels, "cut_panels", without_the_last_panel)
    graph = small_graph("multiclass", 4, weighted=True, nodes=150)
    with pytest.raises(Incorrect):
        gate_of("train")(cell("gcn", "panels"), graph)


@pytest.mark.parametrize("model", ["gcn", "gat"])
@pytest.mark.parametrize("scenario", ["train", "infer"])
def test_trials_and_facts_build_no_transpose_beside_that_of_the_kernels(scenario, model):
    graph = small_graph("multiclass", 4, weighted=False, nodes=150)
    config = cell(model, "tried", scenario)
    spec, engine, plan = spec_of(config, graph), runtime(config.backend, scenario), BatchPlan(graph.nodes_of("train"))
    engine.prepare(graph, spec, TrainingSpec(dropout=0.0), initial_state(spec, 0), plan, PlainClock())
    names = {spmm["name"] for spmm in engine.facts()["spmm"]}
    assert ("layers.1 backward" in names) == (scenario == "train")
    trainer = engine if scenario == "train" else engine.trainer
    assert "transpose" not in vars(trainer.full_batch(graph, plan.nodes).structure[0].csr)


@pytest.mark.parametrize(
    ("model", "features", "forward_only", "is_needed"),
    [
        ("gcn", "dense", False, True),
        ("gcn", "sparse", False, True),
        ("gat", "dense", False, True),
        ("sgc", "dense", False, False),  # multiplies features, which need no gradient
        ("gcn", "dense", True, False),
        ("gcn", "sparse", True, False),
        ("gat", "dense", True, False),
    ],
)
def test_a_rank_builds_transposes_only_where_a_product_needs_them(model, features, forward_only, is_needed):
    graph = small_graph("multiclass", 4, weighted=False, width=6)
    graph = replace(graph, features=in_layout(graph.features, features))
    spec, config = ModelSpec(model, 2, 6, 5, 4), resolve(config_class("blocksparse")(ranks=2, sparse="true"), [])
    trainer = LayeredTrainer(config)
    plan = BatchPlan(graph.nodes_of("train"))
    trainer.set_task(graph, spec, TrainingSpec(threads=1), plan, forward_only)
    pieces = pieces_of(trainer, graph, config, config.layout(graph.nodes))
    rank = ReplayWorker(0, pieces.task, pieces.slices[0], initial_state(spec, 0), NO_NETWORK)
    rank.answer_for(np.arange(3))
    assert rank.predict().shape == (3, 4)
    csrs = [rank.structure[0].csr, *([rank.features.csr] if features == "sparse" else [])]
    assert all(("transpose" in vars(operand(csr))) == is_needed for csr in csrs)


def test_the_facts_of_an_aggregation_build_no_transpose_beside_that_of_the_kernels():
    graph = small_graph("multiclass", 4, weighted=True, nodes=150)
    config = cell("gcn", "tried", "spmm")
    engine = runtime(config.backend, "spmm")
    engine.prepare(graph, spec_of(config, graph), TrainingSpec(), PlainClock())
    assert [spmm["name"] for spmm in engine.facts()["spmm"]] == ["forward", "backward"]
    assert "transpose" not in vars(engine.csr)


@pytest.mark.parametrize("scenario", ["train", "infer", "spmm"])
def test_trials_multiply_tables_of_the_trainings_type(monkeypatch, scenario):
    tried = []

    def with_panels(*arguments, **options):
        tried.append(("panels", options["dtype"]))
        return panels.choose_panels(*arguments, **options)

    def with_tiles(*arguments):
        tried.append(("tiles", arguments[-1]))
        return tiles.choose_tiles(*arguments)

    monkeypatch.setattr(adaptive, "choose_panels", with_panels)
    monkeypatch.setattr(adaptive, "choose_tiles", with_tiles)
    graph, config = small_graph("multiclass", 4, weighted=False), cell("sage", "tried", scenario)
    spec, engine, training = spec_of(config, graph), runtime(config.backend, scenario), TrainingSpec(dtype="float64")
    plan = BatchPlan(graph.nodes_of("train"))
    task = (spec, training) if scenario == "spmm" else (spec, training, initial_state(spec, 0), plan)
    engine.prepare(graph, *task, PlainClock())
    assert set(tried) == {("panels", torch.float64), ("tiles", torch.float64)}


@pytest.mark.parametrize("fastest", [0.2, 0.5])
def test_of_several_densities_the_one_that_gains_most_is_used(monkeypatch, fastest):
    def with_certain_seconds(*arguments):
        choice = tiles.choose_tiles(*arguments)
        return replace(choice, seconds=(1.0, 0.5 if choice.threshold == fastest else 0.8))

    monkeypatch.setattr(adaptive, "choose_tiles", with_certain_seconds)
    monkeypatch.setattr(tiles, "GAIN", 1e9)
    csr, forms = tried_at_several_densities()
    assert forms["threshold"] == {"forward": fastest, "backward": fastest}
    assert operand(csr).forward.tiles[16].threshold == operand(csr).backward.tiles[16].threshold == fastest


@pytest.mark.parametrize("forms", ["tried", "tiles"])
def test_several_densities_may_all_lose(monkeypatch, forms):
    monkeypatch.setattr(tiles, "GAIN", 0.0)
    csr, chosen = tried_at_several_densities(forms)
    assert chosen == {name: {} for name in adaptive.FORMS} and not operand(csr).forward.tiles


def tried_at_several_densities(forms="tried"):
    csr = blocky_csr(5, 320, 320, 50, 12)
    config = resolve(config_class("blocksparse")(panels="false", forms=forms, density_threshold="auto"), [])
    widths = {"forward": 16, "backward": 16}
    return csr, adaptive.adapt(config, "gcn", torch.device("cpu"), torch.float32, LayerMatrix(csr), widths)
