"""One worker: the trainer of one process on its own part of the targets, linked to the others."""

import pickle
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from backends.agl.backend import AglTrainer
from backends.agl.config import AglConfig
from backends.agl.train.links import Link, ReducedLink, ServedLink, Servers, Traffic
from backends.agl.train.parameters import Layout, Vector
from backends.agl.train.plans import WorkerPlan
from backends.agl.train.shards import ShardPlan, ShardTrainer
from backends.base.loss import Targets, targets_of
from backends.base.trainer import Batch
from backends.batches import BatchPlan
from backends.contract import Clock, Floats, Nodes
from backends.model import ModelSpec, State, TrainingSpec
from datasets.graph import Graph
from datasets.randomness import hash_ids

JOB = "job.pickle"


class Phases:
    """A worker's own clock."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        """See ``backends.contract.Clock``."""
        start = time.perf_counter()
        try:
            yield
        finally:
            self.seconds[name] = self.seconds.get(name, 0.0) + time.perf_counter() - start


@dataclass(frozen=True)
class Job:
    """What all workers are told: how to train, from which state, and who trains what."""

    config: AglConfig
    spec: ModelSpec
    training: TrainingSpec
    state: State
    plans: tuple[WorkerPlan, ...]

    @property
    def steps(self) -> int:
        """Steps that every worker counts in an epoch; one without a batch left is idle."""
        return max(plan.steps for plan in self.plans)


def job_of(
    config: AglConfig, spec: ModelSpec, training: TrainingSpec, state: State, plan: BatchPlan, workers: int
) -> Job:
    """Deal a plan out to workers; batch sizes are each worker's own, as in AGL. Threads are shared."""
    plans = plan.dealt(workers) if isinstance(plan, ShardPlan) else dealt(plan, workers)
    local = replace(config, workers=1, strategy="local")
    return Job(local, spec, replace(training, threads=max(1, training.threads // workers)), state, plans)


def dealt(plan: BatchPlan, workers: int) -> tuple[WorkerPlan, ...]:
    """Deal targets by hash, equally up to one; a limit counts the batches of all workers together."""
    order = np.argsort(hash_ids(plan.seed, "workers", plan.nodes), kind="stable")
    limit = None if plan.limit is None else -(-plan.limit // workers)
    parts = [np.sort(plan.nodes[order[rank::workers]]) for rank in range(workers)]
    return tuple(WorkerPlan(part, plan.size, limit, plan.seed) for part in parts)


def save_work(job: Job, graph: Graph, folder: Path) -> None:
    """Write what workers of other processes read: the graph, which they memory-map, and the job."""
    graph.save(folder)
    (folder / JOB).write_bytes(pickle.dumps(job))


@dataclass
class Report:
    """One worker's epoch: mean loss over ``targets``, wall seconds, its phases, its traffic, seconds of each batch."""

    loss: float = 0.0
    targets: int = 0
    seconds: float = 0.0
    phases: dict[str, float] = field(default_factory=dict)
    traffic: dict[str, float] = field(default_factory=dict)
    computed: list[float] = field(default_factory=list)


class WorkerTrainer(AglTrainer):
    """The trainer of one process that tells its link how many labels each batch has."""

    link: Link | None = None
    seen = 0

    def batches(self, index: int, clock: Clock) -> Iterator[Batch]:
        """See ``TorchTrainer``."""
        for batch in super().batches(index, clock):
            self.seen += len(batch.targets)
            if self.link is not None:
                self.link.weight = labels_in(self.batch_labels(batch))
            yield batch


class ShardWorkerTrainer(WorkerTrainer, ShardTrainer):
    """The same on the worker's own shards."""


def labels_in(targets: Targets) -> float:
    """Number of known labels: what a mean loss was divided by."""
    if targets.share is not None:
        return float((targets.share > 0).sum())
    return float((targets.values >= 0).sum())


class Worker:
    """Trains its part of every epoch; lives in this process, in one of its own or in a Ray actor.

    ``servers=None`` links it by all-reduce. A worker that was restarted asks the servers where it was.
    """

    def __init__(self, rank: int, job: Job, graph: Graph, servers: Servers | None) -> None:
        self.rank, self.job, self.graph, self.servers = rank, job, graph, servers
        self.layout = Layout(job.spec)
        self.plan = job.plans[rank]
        kind = ShardWorkerTrainer if isinstance(self.plan, ShardPlan) else WorkerTrainer
        self.trainer: WorkerTrainer = kind(job.config)
        self.trainer.prepare(self.graph, job.spec, job.training, job.state, self.plan, Phases())
        # dropout differs between workers; a node's sampled neighbours do not
        self.trainer.training = replace(job.training, seed=job.training.seed + rank)
        self.load(job.state)

    def load(self, state: State) -> None:
        """Start anew; the servers were given the same state."""
        self.trainer.load(state)
        model, optimizer = self.trainer.model, self.trainer.optimizer
        if self.servers is None:
            self.link: Any = ReducedLink(model, self.layout, optimizer)
        else:
            self.link = ServedLink(model, self.layout, self.servers, self.rank)
        self.trainer.link = self.trainer.optimizer = self.link

    def epoch(self, index: int, first: int) -> dict[str, Any]:
        """Train epoch ``index``, whose first step is number ``first``; returns a ``Report`` as a dictionary."""
        done = 0
        if self.servers is not None:
            self.link.next_step = max(first, self.servers.next_step(self.rank))
            done = self.link.next_step - first
        start, before, phases = time.perf_counter(), self.link.traffic, Phases()
        self.link.computed = []
        self.trainer.plan, self.trainer.seen = replace(self.plan, skip=done), 0
        loss = self.trainer.epoch(index, phases) if done < self.plan.steps else 0.0
        for _ in range(max(done, self.plan.steps), self.job.steps):
            self.link.idle()
        spent = {name: value - getattr(before, name) for name, value in asdict(self.link.traffic).items()}
        seconds, computed = time.perf_counter() - start, self.link.computed
        return asdict(Report(loss, self.trainer.seen, seconds, phases.seconds, spent, computed))

    def probe(self, targets: Nodes) -> tuple[Floats, float, float, Vector | None]:
        """Compute logits, loss and weight of some targets and average the gradients over all workers."""
        if not len(targets):
            self.link.weight = 0.0
            mean = self.link.probe(np.zeros(self.layout.size, dtype=np.float32))
            return np.zeros((0, self.job.spec.classes), dtype=np.float32), 0.0, 0.0, mean
        logits, loss, gradients = self.trainer.loss_and_gradients(targets)
        self.link.weight = labels_in(targets_of(self.graph, targets))
        return logits, loss, self.link.weight, self.link.probe(self.layout.join(gradients))

    def state(self) -> State:
        """The parameters that this worker holds."""
        return self.trainer.state()

    def traffic(self) -> dict[str, float]:
        """Traffic since the state was loaded."""
        held: Traffic = self.link.traffic
        return asdict(held)


class WorkerProcess(Worker):
    """A worker that reads its work from a folder, each time it is started."""

    def __init__(self, rank: int, folder: str, servers: Servers | None) -> None:
        job: Job = pickle.loads((Path(folder) / JOB).read_bytes())
        super().__init__(rank, job, Graph.load(Path(folder)), servers)
