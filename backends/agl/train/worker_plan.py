"""The batches of one worker, and the first one to train after a restart."""

from dataclasses import dataclass

from backends.batches import BatchPlan
from backends.contract import Nodes


@dataclass(frozen=True)
class WorkerPlan(BatchPlan):
    """A worker's own targets; the first ``skip`` batches of the epoch were trained before the worker restarted."""

    skip: int = 0

    def targets(self, epoch: int) -> list[Nodes]:
        """Targets of the batches of an epoch that are still to train."""
        return super().targets(epoch)[self.skip :]

    @property
    def steps(self) -> int:
        """Number of batches in an epoch; 0 without targets."""
        batches = self.batches if len(self.nodes) else 0
        return batches if self.limit is None or self.full_batch else min(batches, self.limit)
