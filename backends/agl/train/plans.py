"""Plans of training workers: their own targets or shards, and the first batch to train after a restart."""

from dataclasses import dataclass, replace

import numpy as np

from backends.agl.flat.encoded_records import ShardError
from backends.agl.flat.reader import GraphFeatureReader
from backends.batches import BatchPlan
from backends.contract import Nodes
from datasets.randomness import hash_ids


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


@dataclass(frozen=True)
class ShardPlan(WorkerPlan):
    """A worker's own shards in a folder, with the number of training records in each; a batch is of one shard."""

    folder: str = ""
    shards: tuple[int, ...] = ()
    trained: tuple[int, ...] = ()

    @property
    def batches(self) -> int:
        """Batches of an epoch, counted shard by shard."""
        assert self.size is not None
        return sum(-(-count // self.size) for count in self.trained)

    def deal(self, workers: int) -> tuple["ShardPlan", ...]:
        """Distribute the shards over workers, round robin; raises ShardError for fewer shards than workers."""
        if len(self.shards) < workers:
            raise ShardError(
                f"{self.folder} has {len(self.shards)} shards for {workers} workers, and each reads its own: lower "
                "workers, or flatten with fewer --shard-records"
            )
        parts = [(self.shards[rank::workers], self.trained[rank::workers]) for rank in range(workers)]
        return tuple(
            replace(self, nodes=np.arange(sum(trained)), shards=shards, trained=trained) for shards, trained in parts
        )


def shard_plan_of(reader: GraphFeatureReader, size: int, seed: int) -> ShardPlan:
    """The plan of one worker on all shards of a folder, in batches of ``size`` records."""
    numbers = tuple(range(len(reader.shards)))
    trained = tuple(int((reader.splits(number) == "train").sum()) for number in numbers)
    return ShardPlan(np.arange(sum(trained)), size, None, seed, 0, str(reader.folder.resolve()), numbers, trained)


def deal_targets(plan: BatchPlan, workers: int) -> tuple[WorkerPlan, ...]:
    """Distribute targets by hash, in parts that differ by at most one; workers share a limit on batches."""
    order = np.argsort(hash_ids(plan.seed, "workers", plan.nodes), kind="stable")
    limit = None if plan.limit is None else -(-plan.limit // workers)
    parts = [np.sort(plan.nodes[order[rank::workers]]) for rank in range(workers)]
    return tuple(WorkerPlan(part, plan.size, limit, plan.seed) for part in parts)
