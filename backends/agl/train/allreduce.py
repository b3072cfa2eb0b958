"""Workers as ranks of torch.distributed that average their gradients by all-reduce, over gloo."""

from collections.abc import Sequence
from typing import Any

from backends.agl.train.gradient_exchange import Servers
from backends.agl.train.worker import TrainingJob, TrainingWorker
from backends.parallel.ranks import RankEnded, shared_pool
from datasets.graph import Graph

ADVICE = "all-reduce cannot go on without it: train again, or choose backend.strategy=sync, whose workers are restarted"


class AllReducePool:
    """Workers on the ranks of this process's pool; all hold the same parameters, so there are no servers."""

    servers: Servers | None = None

    def __init__(self, job: TrainingJob, graph: Graph) -> None:
        workers = len(job.plans)
        self.ranks = shared_pool(workers)
        try:
            self.workers = self.ranks.build(
                f"{__name__}:all_reduce_worker", [(rank, job, graph) for rank in range(workers)]
            )
        except RankEnded as ended:
            raise RankEnded(ended.rank, ended.status, f"{ended}; {ADVICE}") from ended

    def each(self, method: str, arguments: Sequence[tuple[Any, ...]]) -> list[Any]:
        """Call a method of every worker at once; raises RankFailed, also for an exception of a worker."""
        try:
            return self.workers.each(method, arguments)
        except RankEnded as ended:
            raise RankEnded(ended.rank, ended.status, f"{ended}; {ADVICE}") from ended

    def close(self) -> None:
        """Let the ranks forget the workers."""
        self.workers.close()


def all_reduce_worker(rank: int, job: TrainingJob, graph: Graph) -> TrainingWorker:
    """The worker of one rank, linked to the others by all-reduce."""
    return TrainingWorker(rank, job, graph, None)
