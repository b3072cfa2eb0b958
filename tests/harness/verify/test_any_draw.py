"""The gate of engines that draw their own samples: values are compared on all edges, and where draws change nothing."""

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
import pytest

from harness.planning.schema import DatasetConfig, ModelConfig, RunConfig, ScenarioConfig, TrainingConfig
from harness.verify.any_draw import NAME, OF_EPOCHS, two_kinds, verify_any_draw
from harness.verify.comparison import ALLOWED
from harness.verify.graphs import small_graph
from harness.verify.models import ModelSubject, verify_model
from harness.verify.outcome import Incorrect
from tests.harness.verify.wrong_engines import ALL, MutantConfig, MutantTrainer


@dataclass
class OwnDrawsConfig(MutantConfig):
    """The engine as one that cannot be given the definition's draws."""

    draws: ClassVar[tuple[str, ...]] = ()


@dataclass
class OwnEpochsConfig(MutantConfig):
    """The engine as one that computes batches on the definition's draws, and trains epochs on its own."""

    draws_in_epochs: ClassVar[bool] = False
    runtimes: ClassVar[dict[str, str]] = {"train": f"{__name__}:OwnEpochsTrainer"}


class OwnEpochsTrainer(MutantTrainer):
    """An engine whose mistake is in its epochs alone."""

    in_epoch = False

    def epoch(self, index, clock):
        self.in_epoch = True
        try:
            return super().epoch(index, clock)
        finally:
            self.in_epoch = False

    def structure(self, graph):
        right = replace(self.config, wrong="")
        mistaken, self.config = self.config, self.config if self.in_epoch else right
        try:
            return super().structure(graph)
        finally:
            self.config = mistaken


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
    assert max(parity[NAME]["forward"], parity[OF_EPOCHS]["forward"]) <= ALLOWED
    parity = verify_any_draw(cell(OwnEpochsConfig(wrong=wrong), model), graph_for(model))
    assert parity[OF_EPOCHS]["forward"] <= ALLOWED and NAME not in parity
    assert verify_any_draw(cell(MutantConfig(wrong=wrong), model), graph_for(model)) == {}


WRONG = [
    ("degrees of the sample", "gcn"),
    ("self loop missing", "gcn"),
    ("self loop missing", "gat"),
    ("self loop double", "gat"),
    ("self loop added", "sage"),
]


@pytest.mark.parametrize(("wrong", "model"), WRONG)
def test_what_is_wrong_of_drawn_edges_alone_is_caught(wrong, model):
    """Loops that are wrong only where edges are left out: ``verify_any_draw`` compares nothing else."""
    with pytest.raises(Incorrect, match=f"disagrees with the definition on {NAME}"):
        verify_any_draw(cell(OwnDrawsConfig(wrong=wrong), model), graph_for(model))
    with pytest.raises(Incorrect, match=f"disagrees with the definition on {OF_EPOCHS}"):
        verify_any_draw(cell(OwnEpochsConfig(wrong=wrong), model), graph_for(model))


def test_engines_are_compared_by_the_path_of_fanouts_that_leave_out_no_edge():
    graph = graph_for("sage")
    subject = ModelSubject(cell(OwnDrawsConfig(), "sage"), graph)
    assert subject.spec.fanouts == () and subject.engine_spec.fanouts == (graph.csr.in_degrees.max(),) * 2
    assert ModelSubject(cell(OwnDrawsConfig(), "sage", ()), graph).engine_spec.fanouts == ()


def test_nodes_are_of_two_kinds_and_read_the_other_one():
    graph = two_kinds(replace(graph_for("gcn"), edge_features=np.ones((graph_for("gcn").csr.nnz, 3), np.float32)))
    for array in (graph.edge_weights, graph.edge_features, graph.csr.in_degrees, graph.features[::2]):
        assert len(np.unique(array, axis=0)) == 1
    assert len(np.unique(graph.features, axis=0)) == 2
    assert ((graph.csr.indices + graph.csr.destinations) % 2 == 1).all()
