"""Parity gate of whole epochs: the loss of one must be the definition's over all targets, whatever batches it has.

Engines train at a rate of 0, so that all batches see the same parameters and the order of workers does not matter.
Where an engine draws the definition's edges, its epochs do too.
"""

from contextlib import closing
from dataclasses import replace
from typing import Any

import numpy as np

from backends.batches import BatchPlan
from backends.contract import Trainer
from backends.registry import runtime
from datasets.graph import Graph
from harness.measure.clock import Clock
from harness.planning.schema import RunConfig
from harness.scenario.setup import spec_of, training_of
from harness.verify.comparison import UNITS, expected_of
from harness.verify.models import state_of, with_all_edges
from harness.verify.steps import PARTS, Evaluation, multiple, verify_tried

EPOCHS = 2
NAME = f"{EPOCHS} epochs"


def verify_epochs(config: RunConfig, graph: Graph) -> dict[str, Any]:
    """Compare the losses of epochs of several batches on the gate's small graph; raises Incorrect.

    Returns what ``compare`` returns; empty for full batches of all neighbours, whose epochs ``steps.py`` compares.
    """
    subject = EpochsSubject(config, graph)
    return {} if subject.plan.full_batch and not subject.spec.fanouts else verify_tried(config, NAME, subject)


class EpochsSubject:
    """A fresh trainer per state, without dropout, whose steps are 0.

    Every entry of the labels is known: an engine that composes its batches itself has its own mean over batches else.
    """

    def __init__(self, config: RunConfig, graph: Graph) -> None:
        assert graph.labels is not None
        self.backend, self.seed, self.unit = config.backend.for_parity_gate(), config.seed, UNITS[config.training.dtype]
        targets, size = graph.nodes_of("train"), config.training.batch_size
        self.graph = replace(graph, labels=np.maximum(graph.labels, 0))
        spec = spec_of(config, graph)
        draws = "train" in self.backend.draws and self.backend.draws_in_epochs
        self.spec = spec if draws else replace(spec, fanouts=())
        self.engine_spec = self.spec if draws else with_all_edges(spec, graph)
        self.training = replace(training_of(config).without_dropout(), rate=0.0)
        self.plan = BatchPlan(targets, size and min(size, -(-len(targets) // PARTS)), None, config.seed)

    def multiples(self, seed: int) -> dict[str, float]:
        """The error of each epoch's loss over what rounding may do to it."""
        state = state_of(self.spec, seed, self.graph)
        engine: Trainer = runtime(self.backend, "train")
        engine.prepare(self.graph, self.engine_spec, self.training, state, self.plan, Clock())
        with closing(engine):
            losses = [engine.epoch(index, Clock()) for index in range(EPOCHS)]
        sampled = bool(self.spec.fanouts)
        drawn = [self.backend.seed_of_epoch(self.seed, index) if sampled else 0 for index in range(EPOCHS)]
        evaluations = {one: Evaluation(self.graph, self.spec, state, self.plan.nodes, one) for one in drawn}
        expected = {one: expected_of(evaluation, seed, self.unit) for one, evaluation in evaluations.items()}
        return {
            f"loss of epoch {index + 1}": multiple("loss", np.array(loss), expected[drawn[index]])
            for index, loss in enumerate(losses)
        }
