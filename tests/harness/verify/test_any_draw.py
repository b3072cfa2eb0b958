"""The gate of engines that draw their own samples: values are compared on all edges, and where draws change nothing."""

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
import pytest

from harness.planning.schema import DatasetConfig, ModelConfig, RunConfig, ScenarioConfig, TrainingConfig
from harness.verify.any_draw import NAME, equal_nodes
from harness.verify.comparison import ALLOWED
from harness.verify.graphs import small_graph
from harness.verify.models import ModelSubject, verify_model
from harness.verify.outcome import Incorrect
from tests.harness.verify.wrong_engines import ALL, MutantConfig


@dataclass
class OwnDrawsConfig(MutantConfig):
    """The engine as one that cannot be given the definition's draws."""

    draws: ClassVar[tuple[str, ...]] = ()


def cell(backend, model, fanouts=(2, 3)):
    return RunConfig(
        dataset=DatasetConfig("tiny"),
        model=ModelConfig(model, hidden=8, heads=2, fanouts=list(fanouts)),
        backend=backend,
        training=TrainingConfig(batch_size=16),
        scenario=ScenarioConfig("train"),
        threads=1,
    )


def graph_for(model):
    return small_graph("multiclass", 4, weighted=model == "gcn", nodes=150)


@pytest.mark.parametrize("model", ALL)
@pytest.mark.parametrize("wrong", ["", "fanouts of another seed"])
def test_right_engines_pass_whatever_they_draw(model, wrong):
    parity = verify_model(cell(OwnDrawsConfig(wrong=wrong), model), graph_for(model))
    assert parity[NAME]["forward"] <= ALLOWED


def test_degrees_of_the_sample_in_place_of_the_graphs_are_caught():
    with pytest.raises(Incorrect, match=f"disagrees with the definition on {NAME}"):
        verify_model(cell(OwnDrawsConfig(wrong="degrees of the sample"), "gcn"), graph_for("gcn"))


def test_engines_are_compared_by_the_path_of_fanouts_that_leave_out_no_edge():
    graph = graph_for("sage")
    subject = ModelSubject(cell(OwnDrawsConfig(), "sage"), graph)
    assert subject.spec.fanouts == () and subject.engine_spec.fanouts == (graph.csr.in_degrees.max(),) * 2
    assert ModelSubject(cell(OwnDrawsConfig(), "sage", ()), graph).engine_spec.fanouts == ()


def test_all_nodes_of_the_graph_are_equal():
    graph = equal_nodes(replace(graph_for("gcn"), edge_features=np.ones((graph_for("gcn").csr.nnz, 3), np.float32)))
    for array in (graph.features, graph.edge_weights, graph.edge_features, graph.csr.in_degrees):
        assert len(np.unique(array, axis=0)) == 1
