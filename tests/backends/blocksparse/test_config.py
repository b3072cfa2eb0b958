"""The gate runs the engine with options that fit its graphs, whose nodes may be fewer than the cell's row blocks."""

from dataclasses import replace

import numpy as np
import pytest

from backends.ablation import resolve
from backends.blocksparse.config import BlocksparseConfig
from harness.planning.schema import DatasetConfig, ModelConfig, RunConfig, ScenarioConfig, TrainingConfig
from harness.verify import gate_of
from harness.verify.graphs import small_graph


def cell(scenario="train", **options):
    return RunConfig(
        dataset=DatasetConfig("tiny"),
        model=ModelConfig("gcn", hidden=8),
        backend=resolve(BlocksparseConfig(**options), []),
        training=TrainingConfig(dropout=0.0),
        scenario=ScenarioConfig(scenario),
        threads=2,
    )


@pytest.mark.parametrize("options", [{"replay": [2, 8, 64]}, {"replay": [4, 8], "replication": 2}], ids=["1D", "1.5D"])
def test_models_of_more_ranks_than_the_gates_nodes_pass(options):
    config = cell(**options, link=[1.25e8, 5e-5])
    gate_of("train")(config, small_graph("multiclass", 4, weighted=False, nodes=150))


@pytest.mark.parametrize("options", [{}, {"exchange": "broadcast"}, {"overlap": True}])
def test_ranks_pass_where_the_slice_is_a_single_node(options):
    graph = small_graph("multiclass", 4, weighted=False, nodes=70)
    split = np.ones(70, dtype=np.int8)
    split[3] = 0  # a node without edges
    answer = gate_of("train")(cell(ranks=2, **options), replace(graph, split=split))
    assert [part["nodes"] for name, part in answer.items() if "neighbourhood" in name] == [1]
