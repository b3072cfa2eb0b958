"""The trainer of many workers: launches them, lets each train its part of an epoch, and answers for all."""

from typing import Any

import numpy as np

from backends.agl.backend import AglTrainer
from backends.agl.config import AglConfig
from backends.agl.train.allreduce import ReducedPool
from backends.agl.train.graphfeatures import GraphFeatureTrainer
from backends.agl.train.parameters import Layout
from backends.agl.train.pools import Pool, RayPool, ThreadPool
from backends.agl.train.server import Rules
from backends.agl.train.shards import ShardTrainer
from backends.agl.train.worker import Job, job_of
from backends.batches import BatchPlan
from backends.contract import Clock, Floats, Nodes
from backends.model import ModelSpec, State, TrainingSpec
from datasets.graph import Graph

SPREAD = 11


def trainer_of(config: AglConfig) -> AglTrainer:
    """Return the trainer that ``strategy`` and ``source`` name: of this process alone, or of many workers."""
    if config.strategy != "local":
        return DistributedTrainer(config)
    return AglTrainer(config) if config.source == "graph" else GraphFeatureTrainer(config)


def pool_of(config: AglConfig, job: Job, graph: Graph) -> Pool:
    """Launch workers and servers."""
    if config.strategy == "allreduce":
        return ReducedPool(job, graph)
    rules = Rules(config.workers, config.strategy, config.staleness, config.checkpoint_every)
    if config.servers == 0:
        return ThreadPool(job, graph, rules, 1)
    return RayPool(job, graph, rules, config.servers)


class DistributedTrainer(AglTrainer):
    """See ``backends.contract.Trainer``; parameters live at the servers, this process predicts with a copy."""

    pool: Pool | None = None

    def prepare(
        self, graph: Graph, spec: ModelSpec, training: TrainingSpec, state: State, plan: BatchPlan, clock: Clock
    ) -> None:
        """See ``Trainer``; phase ``launch`` starts the processes."""
        workers = self.config.workers
        if workers > len(plan.nodes):
            raise ValueError(f"backend.workers={workers} is more than the {len(plan.nodes)} targets to train: lower it")
        self._check_servers(spec)
        super().prepare(graph, spec, training, state, plan, clock)
        self.reports: list[list[dict[str, Any]]] = []
        self.layout, self.job = Layout(spec), job_of(self.config, spec, training, state, plan, workers)
        with clock.phase("launch"):
            self.pool = pool_of(self.config, self.job, graph)

    def _check_servers(self, spec: ModelSpec) -> None:
        held = Layout(spec).size
        if self.config.strategy != "allreduce" and self.config.servers > held:
            raise ValueError(f"backend.servers={self.config.servers} is more than the {held} parameters: lower it")

    def load(self, state: State) -> None:
        """See ``Trainer``."""
        super().load(state)
        self.step, self.stale = 0, False
        if self.pool is not None:
            if self.pool.servers is not None:
                self.pool.servers.load(self.layout.join(state))
            self.pool.each("load", [(state,)] * self.config.workers)

    def epoch(self, index: int, clock: Clock) -> float:
        """See ``Trainer``; each worker's own phases are in ``facts``."""
        assert self.pool is not None
        with clock.phase("workers"):
            reports = self.pool.each("epoch", [(index, self.step)] * self.config.workers)
        self.step += self.job.steps
        self.stale = True
        self.reports.append(reports)
        counts = [report["targets"] for report in reports]
        return float(np.dot([report["loss"] for report in reports], counts) / max(1, sum(counts)))

    def loss_and_gradients(self, targets: Nodes) -> tuple[Floats, float, dict[str, Floats]]:
        """See ``Trainer``: every worker computes its part, the gradients are averaged where an epoch averages them."""
        assert self.pool is not None
        parts = np.array_split(np.ascontiguousarray(targets), self.config.workers)
        answers = self.pool.each("probe", [(part,) for part in parts])
        weights = [weight for _, _, weight, _ in answers]
        loss = float(np.dot([loss for _, loss, _, _ in answers], weights) / sum(weights))
        mean = answers[0][3] if self.pool.servers is None else self.pool.servers.probe_mean()
        return np.concatenate([logits for logits, _, _, _ in answers]), loss, dict(self.layout.split(mean))

    def predict(self, graph: Graph, nodes: Nodes) -> Floats:
        """See ``Trainer``."""
        self.refresh()
        return super().predict(graph, nodes)

    def refresh(self) -> None:
        """Copy the servers' parameters, if they have moved on."""
        if self.stale:
            self.model.load(self.state())
            self.stale = False

    def state(self) -> State:
        """See ``Trainer``."""
        assert self.pool is not None
        if self.pool.servers is None:
            held: State = self.pool.each("state", [()] * self.config.workers)[0]
            return held
        return self.layout.split(self.pool.servers.values())

    def facts(self) -> dict[str, Any]:
        """See ``Trainer``; ``workers`` hold medians over all epochs, ``servers`` sums."""
        assert self.pool is not None
        servers = [] if self.pool.servers is None else self.pool.servers.every("facts")
        workers = [middle_report(list(held)) for held in zip(*self.reports, strict=True)]
        sizes = {"steps": self.job.steps, "parameters": self.layout.size}
        return super().facts() | {"workers": workers, "servers": servers} | sizes

    def close(self) -> None:
        """See ``Trainer``."""
        if self.pool is not None:
            self.pool.close()
            self.pool = None


class DistributedShardTrainer(DistributedTrainer, ShardTrainer):
    """Many workers on shards that GraphFlat left, each on its own; the plan is a ``ShardPlan`` of all of them."""

    def validation_loss(self) -> float | None:
        """See ``ShardTrainer``; computed here, with a copy of the parameters."""
        self.refresh()
        return super().validation_loss()


def middle_report(reports: list[dict[str, Any]]) -> dict[str, Any]:
    """One worker's epochs in one row: seconds of compute, pull, push and wait, bytes, targets, each per epoch.

    ``spread`` holds quantiles, from least to most, of the seconds from a batch's pull to its push.
    """
    rows = [report["traffic"] | {"targets": report["targets"], "seconds": report["seconds"]} for report in reports]
    middle = {name: float(np.median([row[name] for row in rows])) for name in rows[0]}
    batches = [seconds for report in reports for seconds in report["computed"]]
    spread = [float(value) for value in np.quantile(batches, np.linspace(0.0, 1.0, SPREAD))] if batches else []
    exchanged = middle["pull"] + middle["push"] + middle["wait"]
    return middle | {"spread": spread, "compute": middle["seconds"] - exchanged}
