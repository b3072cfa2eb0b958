"""Modelled epochs on other numbers of ranks beside the measured epoch of one process; see ``replay``."""

from typing import Any

from backends.batches import BatchPlan
from backends.blocksparse.backend import BlocksparseTrainer
from backends.blocksparse.layout import RankLayout
from backends.blocksparse.pieces import check_blocks, pieces_of
from backends.blocksparse.replay import ModelledEpoch, replay
from backends.blocksparse.slices import targets_of_ranks
from backends.contract import Clock
from backends.memory_errors import unless_out_of_memory
from backends.model import ModelSpec, State, TrainingSpec
from datasets.graph import Graph


class ReplayTrainer(BlocksparseTrainer):
    """Trains in one process; the facts model its epochs on ``backend.replay`` ranks."""

    def prepare(
        self, graph: Graph, spec: ModelSpec, training: TrainingSpec, state: State, plan: BatchPlan, clock: Clock
    ) -> None:
        """Prepare one process; raises Unsupported for a number of ranks that cannot divide the graph."""
        self.refuse_columns(graph, spec, training, plan)
        for ranks in self.config.replay:
            check_blocks(RankLayout(ranks, self.config.replication), graph, self.config.bounds)
        super().prepare(graph, spec, training, state, plan, clock)
        self.initial = state

    def facts(self) -> dict[str, Any]:
        """Sizes of the products, and the modelled epoch of each number of ranks, or why it was not modelled."""
        return super().facts() | {"replay": [self._unless_out_of_memory(ranks) for ranks in self.config.replay]}

    def _unless_out_of_memory(self, ranks: int) -> dict[str, Any]:
        """The modelled epoch, or where memory does not hold it the number of ranks and a ``status``."""
        return {"ranks": ranks} | unless_out_of_memory(lambda: self.modelled(ranks))

    def modelled(self, ranks: int) -> dict[str, Any]:
        """The modelled epoch on ``ranks`` ranks: its seconds, what they are for, and the largest bytes of a rank."""
        pieces = pieces_of(self, self.graph, self.config, RankLayout(ranks, self.config.replication))
        targets = targets_of_ranks(self.graph, self.plan.nodes, pieces.cut)
        results = replay(pieces.task, pieces.slices, targets, self.initial)
        return ModelledEpoch.of(results, together=False).facts(results) | {"imbalance": pieces.cut.imbalance}
