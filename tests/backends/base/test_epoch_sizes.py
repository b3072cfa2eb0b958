"""Sizes of an epoch's products where batches differ: their sum is that of all, and the usual one holds no hub."""

import numpy as np
import pytest

from backends.ablation import resolve
from backends.base.facts import StepSizes, epoch_facts, usual_step
from backends.base.trainer import SIZED_BATCHES
from backends.batches import BatchPlan
from backends.model import ModelSpec, TrainingSpec, initial_state
from backends.registry import config_class, runtime
from datasets.csr import csr_from_edges
from datasets.graph import Graph
from tests.contract.test_parity import PlainClock

NODES, SIZE = 400, 100


@pytest.fixture
def graph():
    """Node 0 has an edge from every other node, these have one each."""
    others = np.arange(1, NODES)
    source, destination = np.concatenate([others, others - 1]), np.concatenate([np.zeros_like(others), others])
    labels = np.arange(NODES) % 3
    features = np.ones((NODES, 8), np.float32)
    csr = csr_from_edges(source, destination, (NODES, NODES))
    return Graph("hub", csr, features=features, labels=labels, split=np.zeros(NODES, np.int8), classes=3)


@pytest.mark.parametrize("hub_first", [True, False])
def test_the_sizes_of_an_epoch_are_those_of_its_batches_wherever_a_hub_is(graph, hub_first):
    plans = (BatchPlan(np.arange(NODES), SIZE, None, seed) for seed in range(99))
    plan = next(plan for plan in plans if (0 in plan.targets(0)[0]) == hub_first)
    engine = runtime(resolve(config_class("agl")(), []), "train")
    spec = ModelSpec("gcn", 1, graph.width, 16, graph.classes)
    engine.prepare(graph, spec, TrainingSpec(threads=1), initial_state(spec, 0), plan, PlainClock())
    edges = [engine.layer_csrs(engine.target_batch(targets).structure)[0].nnz for targets in plan.targets(0)]
    assert max(edges) > 2 * min(edges)
    forward = engine.facts()["spmm"][0]
    assert forward["nnz"] * forward["count"] == pytest.approx(sum(edges), abs=len(edges))
    operand = engine.spmm_operands()[0]
    assert operand["csr"].nnz * operand["count"] <= sum(edges)


def test_few_of_many_batches_are_drawn_again(graph, monkeypatch):
    engine, drawn = runtime(resolve(config_class("agl")(), []), "train"), []
    spec = ModelSpec("gcn", 1, graph.width, 16, graph.classes)
    plan = BatchPlan(np.arange(NODES), 4, None, 0)
    engine.prepare(graph, spec, TrainingSpec(threads=1), initial_state(spec, 0), plan, PlainClock())
    target_batch = engine.target_batch
    monkeypatch.setattr(engine, "target_batch", lambda targets: drawn.append(targets[0]) or target_batch(targets))
    assert engine.facts()["spmm"][0]["count"] == plan.batches == 100
    first = [targets[0] for targets in plan.targets(0)]
    assert len(drawn) == SIZED_BATCHES and {first[0], first[-1]} <= set(drawn)


def test_products_that_some_batches_lack_run_less_often():
    wide = StepSizes({("layers.0 forward", 8): (10, 2, 4)}, 100)
    narrow = StepSizes({("layers.0 forward", 4): (30, 4, 6)}, 300)
    facts = epoch_facts([wide, narrow, narrow], 30)
    assert [(one["width"], one["nnz"], one["rows"], one["columns"], one["count"]) for one in facts["spmm"]] == [
        (8, 10, 2, 4, 10),
        (4, 30, 4, 6, 20),
    ]
    assert facts["dense_flops"] == 7000
    assert usual_step([wide, narrow, narrow]) == 0
