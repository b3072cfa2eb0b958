"""A training worker: a trainer on its own part of the targets, which exchanges gradients with the other workers."""

import io
import pickle
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from backends.agl.backend import AglTrainer, labels_in
from backends.agl.config import AglConfig
from backends.agl.flat.reader import GraphFeatureReader
from backends.agl.train.shard_source import ShardSource, targets_of_shards
from backends.agl.train.source import ShardPlan, WorkerPlan, deal_targets
from backends.base.gradient_exchange import AllReduceExchange, ServerExchange, Servers, Traffic
from backends.base.loss import targets_of
from backends.base.parameter_server import ParameterLayout, Vector
from backends.base.trainer import Batch
from backends.batches import BatchPlan
from backends.contract import Floats, Nodes
from backends.model import ModelSpec, State, TrainingSpec
from datasets.graph import Graph
from datasets.randomness import stream

JOB = "job.pickle"


class WorkerClock:
    """The clock of a worker: seconds per phase."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        """Add the seconds of the block to a phase."""
        start = time.perf_counter()
        try:
            yield
        finally:
            self.seconds[name] = self.seconds.get(name, 0.0) + time.perf_counter() - start


@dataclass(frozen=True)
class TrainingJob:
    """Inputs common to all workers: configuration, model, initial state, and the plan of each."""

    config: AglConfig
    spec: ModelSpec
    training: TrainingSpec
    state: State
    plans: tuple[WorkerPlan, ...]

    @property
    def steps(self) -> int:
        """Steps of an epoch, the same for all workers; a worker without a batch for a step idles."""
        return max(plan.steps for plan in self.plans)


def training_job_of(
    config: AglConfig, spec: ModelSpec, training: TrainingSpec, state: State, plan: BatchPlan, workers: int
) -> TrainingJob:
    """Distribute a plan over workers: each has the plan's batch size, as in AGL, and its share of the threads."""
    plans = plan.deal(workers) if isinstance(plan, ShardPlan) else deal_targets(plan, workers)
    local = replace(config, workers=1, strategy="local")
    return TrainingJob(local, spec, replace(training, threads=max(1, training.threads // workers)), state, plans)


def save_work(job: TrainingJob, graph: Graph, folder: Path) -> None:
    """Write the inputs of workers in other processes: the graph, which they memory-map, and the job."""
    graph.save(folder)
    (folder / JOB).write_bytes(pickle.dumps(job))


class TrainingWorker:
    """Trains its part of every epoch, as a thread, a process or a Ray actor.

    ``servers=None`` exchanges by all-reduce. A restarted worker asks the servers for its next step.
    """

    def __init__(self, rank: int, job: TrainingJob, graph: Graph, servers: Servers | None) -> None:
        self.rank, self.job, self.servers = rank, job, servers
        self.layout = ParameterLayout(job.spec)
        self.plan = job.plans[rank]
        if isinstance(self.plan, ShardPlan):
            graph = targets_of_shards(GraphFeatureReader(self.plan.folder), self.plan.shards)
        self.trainer = AglTrainer(job.config, ShardSource() if isinstance(self.plan, ShardPlan) else None)
        self.trainer.on_batch = self._begin_step
        self.step, self.trained_targets, self.trained_labels = 0, 0, 0.0
        self.trainer.prepare(graph, job.spec, job.training, job.state, self.plan, WorkerClock())
        # workers draw different dropout of attention, but the same neighbours of a node
        self.trainer.training = replace(job.training, seed=job.training.seed + rank)
        self.load(job.state)

    def load(self, state: State) -> None:
        """Start from a state; the servers were loaded with the same one."""
        self.trainer.load(state)
        model, optimizer = self.trainer.model, self.trainer.optimizer
        if self.servers is None:
            self.exchange: Any = AllReduceExchange(model, self.layout, optimizer)
        else:
            self.exchange = ServerExchange(model, self.layout, self.servers, self.rank)
        self.trainer.optimizer = self.exchange
        self.trainer.model.generator = torch.Generator()
        self._draw_for(0)

    def _draw_for(self, step: int) -> None:
        """Draw dropout from seed, rank and step alone: a worker that starts again in an epoch drops what it dropped."""
        self.trainer.model.generator.manual_seed(stream(self.trainer.training.seed, f"worker's step {step}"))

    def _begin_step(self, batch: Batch) -> None:
        """Draw for the step of a batch, and weight its gradient by its number of labels."""
        self._draw_for(self.step)
        self.step += 1
        self.trained_targets += len(batch.targets)
        self.exchange.weight = labels_in(self.trainer.batch_labels(batch))
        self.trained_labels += self.exchange.weight

    def epoch(self, index: int, first: int) -> dict[str, Any]:
        """Train epoch ``index``, whose first step is number ``first``; return when all workers have pushed theirs.

        Returns mean ``loss``, number of trained ``targets`` and of their ``labels``, wall ``seconds``,
        ``traffic``, and ``computed``, the seconds of each batch: of the steps since the worker was started
        again, where that was in this epoch.
        """
        skipped = 0
        if self.servers is not None:
            self.exchange.next_step = max(first, self.servers.next_step(self.rank))
            skipped = self.exchange.next_step - first
        start, before = time.perf_counter(), self.exchange.traffic
        self.step, self.exchange.computed = first + skipped, []
        self.trainer.plan, self.trained_targets, self.trained_labels = replace(self.plan, skip=skipped), 0, 0.0
        loss = self.trainer.epoch(index, WorkerClock()) if skipped < self.plan.steps else 0.0
        for _ in range(max(skipped, self.plan.steps), self.job.steps):
            self.exchange.idle()
        traffic = {name: value - getattr(before, name) for name, value in asdict(self.exchange.traffic).items()}
        report = {"loss": loss, "targets": self.trained_targets, "labels": self.trained_labels}
        report |= {"seconds": time.perf_counter() - start, "traffic": traffic}
        if self.servers is not None:
            self.servers.finish(self.rank, first + self.job.steps)
        return report | {"computed": self.exchange.computed}

    def probe(self, targets: Nodes) -> tuple[Floats, float, float, Vector | None]:
        """Logits, loss and weight of some targets, and the mean gradient of all workers (``None``: at the servers)."""
        return self._probed(self.trainer.target_batch(targets) if len(targets) else None)

    def probe_shards(self, plan: ShardPlan) -> tuple[Nodes, Floats, float, float, Vector | None]:
        """Ids of the targets of one shard or none, and what ``probe`` returns of them."""
        if not plan.shards:
            return np.empty(0, dtype=np.int64), *self._probed(None)
        reader, source = GraphFeatureReader(plan.folder), ShardSource()
        graph = targets_of_shards(reader, plan.shards)
        source.read(self.trainer, reader, graph)
        (records,) = reader.encoded_batches(graph.nodes, shards=plan.shards)
        batch = source.batch(records)
        batch = replace(batch, labels=targets_of(graph, batch.targets, None, self.trainer.dtype))
        return np.asarray(graph.node_ids)[batch.targets], *self._probed(batch)

    def _probed(self, batch: Batch | None) -> tuple[Floats, float, float, Vector | None]:
        if batch is None:
            self.exchange.weight = 0.0
            mean = self.exchange.probe(np.zeros(self.layout.size, dtype=np.float32))
            return np.zeros((0, self.job.spec.classes), dtype=np.float32), 0.0, 0.0, mean
        logits, loss, gradients = self.trainer.gradients_of(batch)
        self.exchange.weight = labels_in(self.trainer.batch_labels(batch))
        return logits, loss, self.exchange.weight, self.exchange.probe(self.layout.join(gradients))

    def state(self) -> State:
        """The parameters of this worker."""
        return self.trainer.state()

    def snapshot(self) -> bytes:
        """The optimizer's state of a rank that updates by all-reduce, as bytes: tensors do not pass between ranks."""
        buffer = io.BytesIO()
        torch.save(self.exchange.optimizer.state_dict(), buffer)
        return buffer.getvalue()

    def resume(self, snapshot: bytes) -> None:
        """Take over what ``snapshot`` of some rank returned."""
        self.exchange.optimizer.load_state_dict(torch.load(io.BytesIO(snapshot), weights_only=True))

    def traffic(self) -> dict[str, float]:
        """Traffic since the state was loaded."""
        traffic: Traffic = self.exchange.traffic
        return asdict(traffic)


class WorkerProcess(TrainingWorker):
    """A worker that reads job and graph from a folder whenever it is started."""

    def __init__(self, rank: int, folder: str, servers: Servers | None) -> None:
        job: TrainingJob = pickle.loads((Path(folder) / JOB).read_bytes())
        super().__init__(rank, job, Graph.load(Path(folder)), servers)
