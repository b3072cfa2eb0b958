"""Seconds of a rank's pass: products with the matrix are told from those with the features, in every model."""

from dataclasses import replace

import numpy as np
import pytest

from backends.ablation import resolve
from backends.base.layered_trainer import LayeredTrainer
from backends.batches import BatchPlan
from backends.blocksparse.config import BlocksparseConfig
from backends.blocksparse.phases import RankPhases
from backends.blocksparse.pieces import pieces_of
from backends.blocksparse.replay import ReplayWorker
from backends.blocksparse.slices import targets_of_ranks
from backends.model import ModelSpec, TrainingSpec, initial_state
from backends.parallel.network import NO_NETWORK
from datasets.features import in_layout
from datasets.graph import Graph
from tests.graphs import awkward_graph


def phases_of(graph: Graph, spec: ModelSpec) -> list[RankPhases]:
    """The phases of two ranks without dropout, each of a second pass."""
    config, plan = resolve(BlocksparseConfig(ranks=2, sparse="true"), []), BatchPlan(graph.nodes_of("train"))
    trainer = LayeredTrainer(config)
    trainer.set_task(graph, spec, TrainingSpec(threads=1), plan)
    pieces = pieces_of(trainer, graph, config, config.layout(graph.nodes))
    phases = []
    for rank, targets in enumerate(targets_of_ranks(graph, plan.nodes, pieces.cut)):
        worker = ReplayWorker(rank, pieces.task, pieces.slices[rank], initial_state(spec, 0), NO_NETWORK)
        worker.train_on(targets)
        worker.phases()
        phases.append(worker.phases())
    return phases


@pytest.mark.parametrize("model", ["gat", "gcn", "sage", "sgc"])
def test_products_with_the_matrix_are_counted_in_every_model(model: str) -> None:
    graph = awkward_graph(2)
    phases = phases_of(graph, ModelSpec(model, 2, graph.width, 5, graph.classes))
    assert all(each.aggregate > 0 for each in phases)


def test_products_with_sparse_features_are_not_counted_as_products_with_the_matrix() -> None:
    draw = np.random.default_rng(0)
    features = (draw.random((1000, 2000)) < 0.1).astype(np.float32)
    graph = replace(awkward_graph(2, nodes=1000, edges=10), features=in_layout(features, "sparse"))
    passes = [phases_of(graph, ModelSpec("gcn", 2, graph.width, 128, graph.classes)) for _ in range(3)]
    for rank in zip(*passes, strict=True):  # the fastest of three passes: another process may interrupt one
        assert min(each.aggregate for each in rank) < min(each.dense for each in rank)
