"""Modelled epochs on other numbers of ranks beside the measured epoch of one process; see ``replay``."""

from dataclasses import replace
from typing import Any

from backends.base.refusals import refuse_weights
from backends.batches import BatchPlan
from backends.blocksparse.backend import BlocksparseTrainer
from backends.blocksparse.layout import RankLayout
from backends.blocksparse.replay import epoch_seconds, replay
from backends.blocksparse.slices import cut, targets_of_ranks
from backends.blocksparse.worker import RankTask
from backends.contract import Clock, Unsupported
from backends.model import ModelSpec, State, TrainingSpec
from datasets.adjacency import adjacency_of
from datasets.graph import Graph
from datasets.order.bounds import BOUNDS


class ReplayTrainer(BlocksparseTrainer):
    """Trains in one process; the facts model its epochs on ``backend.replay`` ranks."""

    def prepare(
        self, graph: Graph, spec: ModelSpec, training: TrainingSpec, state: State, plan: BatchPlan, clock: Clock
    ) -> None:
        """Prepare one process; raises Unsupported for more row blocks than nodes."""
        refuse_weights(graph, spec)
        try:
            for ranks in self.config.replay:
                RankLayout(ranks, self.config.replication).check_rows(graph.nodes)
        except ValueError as error:
            raise Unsupported(str(error)) from error
        super().prepare(graph, spec, training, state, plan, clock)
        self.initial = state

    def facts(self) -> dict[str, Any]:
        """Sizes of the products, and the modelled epoch of each number of ranks."""
        return super().facts() | {"replay": [self.modelled(ranks) for ranks in self.config.replay]}

    def modelled(self, ranks: int) -> dict[str, Any]:
        """The modelled epoch on ``ranks`` ranks: seconds of the slowest, and what they are for; largest bytes."""
        config = replace(self.config, ranks=ranks, replay=[])
        adjacency = adjacency_of(self.graph, self.spec.name, self.training.dtype)
        steps = self.steps(self.full.structure)
        products = tuple((step.width, step.has_backward) for _, step in steps)
        task = RankTask(self.spec, self.training, products, config, self.sparse_input)
        bounds = BOUNDS[config.bounds](adjacency.csr, task.layout.blocks)
        is_mean = self.spec.name == "sage"
        graph_cut, slices = cut(self.graph, adjacency, task.layout, bounds, config.exchange, is_mean)
        targets = targets_of_ranks(self.graph, self.plan.nodes, graph_cut)
        epochs = replay(task, slices, targets, self.initial, config.replay_on)
        slowest = max(epochs, key=lambda epoch: epoch.seconds)
        return {
            "ranks": ranks,
            "seconds": epoch_seconds(epochs),
            "compute": slowest.compute,
            "exposed": slowest.exposed,
            "rows": max(epoch.rows for epoch in epochs),
            "imbalance": graph_cut.imbalance,
        }
