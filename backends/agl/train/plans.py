"""Which targets a worker trains in an epoch, and where it goes on after a restart."""

from dataclasses import dataclass

from backends.batches import BatchPlan
from backends.contract import Nodes


@dataclass(frozen=True)
class WorkerPlan(BatchPlan):
    """A worker's own targets; the first ``skip`` batches of an epoch were trained before the worker was restarted."""

    skip: int = 0

    def targets(self, epoch: int) -> list[Nodes]:
        """See ``BatchPlan``."""
        return super().targets(epoch)[self.skip :]

    @property
    def steps(self) -> int:
        """Batches of an epoch, none where there are no targets."""
        whole = self.batches if len(self.nodes) else 0
        return whole if self.limit is None or self.full_batch else min(whole, self.limit)
