"""Training by many workers: launches them, runs epochs on all of them, and collects their reports."""

import tempfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from backends.agl.backend import AglTrainer
from backends.agl.config import AglConfig
from backends.agl.train.pools import AllReducePool, Pool, RayPool, ThreadPool
from backends.agl.train.shard_source import FlattenedSource, FlattenedTargets
from backends.agl.train.source import ShardPlan, shard_plan_of
from backends.agl.train.worker import TrainingJob, training_job_of
from backends.base.layered import LayerMatrix
from backends.base.parameter_server import ParameterLayout, UpdateRules
from backends.batches import BatchPlan
from backends.contract import Clock, Floats, Nodes
from backends.model import ModelSpec, State, TrainingSpec
from datasets.graph import Graph

SPREAD_QUANTILES = 11


def trainer_of(config: AglConfig) -> AglTrainer:
    """The trainer of a configuration: of one worker in this process, or of many."""
    if config.strategy != "local":
        return DistributedTrainer(config) if config.source == "graph" else FlattenedTrainer(config)
    return AglTrainer(config, None if config.source == "graph" else FlattenedSource())


def pool_of(config: AglConfig, job: TrainingJob, graph: Graph) -> Pool:
    """Launch workers, and servers where the strategy has them."""
    if config.strategy == "allreduce":
        return AllReducePool(job, graph)
    rules = UpdateRules(config.workers, config.strategy, config.staleness, config.checkpoint_every)
    if config.servers == 0:
        return ThreadPool(job, graph, rules)
    return RayPool(job, graph, rules, config.servers)


class DistributedTrainer(AglTrainer):
    """Trains with many workers; this process predicts with a copy of their parameters."""

    pool: Pool | None = None

    def prepare(
        self, graph: Graph, spec: ModelSpec, training: TrainingSpec, state: State, plan: BatchPlan, clock: Clock
    ) -> None:
        """Prepare a copy of the model, then start the workers in phase ``launch``."""
        self.config = self.config.for_targets(len(plan.nodes))
        self.layout = ParameterLayout(spec)
        size, servers = self.layout.size, self.config.servers
        if self.config.strategy != "allreduce" and servers > size:
            raise ValueError(f"servers={servers} is more than the {size} parameters: lower it")
        super().prepare(graph, spec, training, state, plan, clock)
        self.reports: list[list[dict[str, Any]]] = []
        plan = self.plan_of_workers(plan)
        self.job = training_job_of(self.config, spec, training, state, plan, self.config.workers)
        with clock.phase("launch"):
            # a worker on shards reads its own targets
            shared = graph.subgraph(np.empty(0, dtype=np.int64)) if isinstance(plan, ShardPlan) else graph
            self.pool = pool_of(self.config, self.job, shared)

    def plan_of_workers(self, plan: BatchPlan) -> BatchPlan:
        """The plan that is dealt to the workers."""
        return plan

    def kept_matrices(self) -> list[tuple[int, LayerMatrix]]:
        """None: this process does not train, and each worker keeps its own."""
        return []

    def load(self, state: State) -> None:
        """Load parameters into the copy, the servers and all workers."""
        super().load(state)
        self.step, self.stale = 0, False
        if self.pool is not None:
            if self.pool.servers is not None:
                self.pool.servers.load(self.layout.join(state))
            self.pool.each("load", [(state,)] * self.config.workers)

    def epoch(self, index: int, clock: Clock) -> float:
        """Train an epoch on all workers; returns the mean loss over their labels, by which gradients are weighted."""
        assert self.pool is not None
        with clock.phase("workers"):
            reports = self.pool.each("epoch", [(index, self.step)] * self.config.workers)
        self.step += self.job.steps
        self.stale = True
        self.reports.append(reports)
        labels = [report["labels"] for report in reports]
        return float(np.dot([report["loss"] for report in reports], labels) / max(1.0, sum(labels)))

    def loss_and_gradients(self, targets: Nodes) -> tuple[Floats, float, dict[str, Floats]]:
        """Logits, loss and mean gradients of targets, split over the workers and averaged as in an epoch."""
        parts = np.array_split(np.ascontiguousarray(targets), self.config.workers)
        (logits,), loss, gradients = self.probed("probe", parts)
        return logits, loss, gradients

    def probed(self, method: str, parts: Sequence[Any]) -> tuple[list[Any], float, dict[str, Floats]]:
        """What the workers return of a part each, joined, and their mean loss and gradients."""
        assert self.pool is not None
        answers = self.pool.each(method, [(part,) for part in parts])
        *columns, losses, weights, means = zip(*answers, strict=True)
        mean = means[0] if self.pool.servers is None else self.pool.servers.probe_mean()
        loss = float(np.dot(losses, weights) / sum(weights))
        return [np.concatenate(column) for column in columns], loss, dict(self.layout.split(mean))

    def predict(self, graph: Graph, nodes: Nodes) -> Floats:
        """Predict here, with the newest parameters."""
        self.refresh()
        return super().predict(graph, nodes)

    def validation_loss(self) -> float | None:
        """Mean loss over the validation nodes, computed here with the newest parameters."""
        self.refresh()
        return super().validation_loss()

    def snapshot(self) -> dict[str, Any]:
        """The state of all servers, or of one rank, as all are equal; between epochs no worker is on its way."""
        assert self.pool is not None
        if self.pool.servers is None:
            state = self.pool.each("snapshot", [()] * self.config.workers)[0]
            parts = [torch.frombuffer(bytearray(state), dtype=torch.uint8)]
        else:
            parts = self.pool.servers.call_all("snapshot")
        return {"step": self.step, "parts": parts}

    def resume(self, snapshot: dict[str, Any]) -> None:
        """Take over what ``snapshot`` returned."""
        assert self.pool is not None
        self.step, self.stale, parts = snapshot["step"], True, snapshot["parts"]
        if self.pool.servers is None:
            self.pool.each("resume", [(parts[0].numpy().tobytes(),)] * self.config.workers)
        else:
            self.pool.servers.resume(parts)

    def refresh(self) -> None:
        """Copy the workers' parameters if an epoch was trained since the last copy."""
        if self.stale:
            self.model.load(self.state())
            self.stale = False

    def state(self) -> State:
        """The parameters, of the servers or of worker 0."""
        assert self.pool is not None
        if self.pool.servers is None:
            state: State = self.pool.each("state", [()] * self.config.workers)[0]
            return state
        return self.layout.split(self.pool.servers.values())

    @property
    def overlaps(self) -> bool:
        """Whether the pipelines of the workers run, each on its share of the threads."""
        return bool(self.config.on("pipeline")) and self.job.training.threads >= self.config.pipeline_from

    def facts(self) -> dict[str, Any]:
        """Facts of the trainer; medians over all epochs per worker, sums per server."""
        assert self.pool is not None
        servers = [] if self.pool.servers is None else self.pool.servers.call_all("facts")
        workers = [median_report(list(epochs)) for epochs in zip(*self.reports, strict=True)]
        sizes = {"steps": self.job.steps, "parameters": self.layout.size}
        return super().facts() | {"workers": workers, "servers": servers} | sizes

    def close(self) -> None:
        """End workers and servers, close the source."""
        super().close()
        if self.pool is not None:
            self.pool.close()
            self.pool = None


class FlattenedTrainer(DistributedTrainer):
    """Trains with many workers, each on its own shards, which GraphFlat writes first (AGL, sections 3.2 and 3.3).

    This process predicts from the graph; the workers see their shards alone.
    """

    def prepare(
        self, graph: Graph, spec: ModelSpec, training: TrainingSpec, state: State, plan: BatchPlan, clock: Clock
    ) -> None:
        """Flatten the targets in phase ``flatten``, then prepare as without shards."""
        self.config = self.config.for_targets(len(plan.nodes))
        self.flattened = FlattenedTargets(self.config, graph, spec, training)
        with clock.phase("flatten"):
            self.reader = self.flattened.flatten(plan)
        super().prepare(self.flattened.graph, spec, training, state, plan, clock)

    def plan_of_workers(self, plan: BatchPlan) -> BatchPlan:
        """The shards, in batches of the plan's size."""
        return shard_plan_of(self.reader, plan.size or len(plan.nodes), plan.seed)

    def loss_and_gradients(self, targets: Nodes) -> tuple[Floats, float, dict[str, Floats]]:
        """Logits, loss and mean gradients of targets, whose records are dealt to the workers in shards of their own."""
        workers, targets = self.config.workers, np.ascontiguousarray(targets)
        ids = targets if self.graph.node_ids is None else np.asarray(self.graph.node_ids)[targets]
        with tempfile.TemporaryDirectory(dir=self.flattened.folder) as folder:
            plan = BatchPlan(targets, -(-len(targets) // workers))
            whole = shard_plan_of(self.flattened.flatten(plan, Path(folder) / "shards"), len(targets), 0)
            plans = list(whole.deal(min(workers, len(whole.shards))))
            idle = [replace(whole, nodes=targets[:0], shards=(), trained=())] * (workers - len(plans))
            (own, logits), loss, gradients = self.probed("probe_shards", plans + idle)
        order = np.argsort(own)
        return logits[order[np.searchsorted(own[order], ids)]], loss, gradients

    def facts(self) -> dict[str, Any]:
        """Facts of the trainer, bytes of the shards, stored nodes per distinct node."""
        return super().facts() | self.flattened.facts(self.reader)

    def close(self) -> None:
        """Also remove the shards, which were written for this run."""
        super().close()
        self.flattened.remove()


def median_report(reports: list[dict[str, Any]]) -> dict[str, Any]:
    """Medians over one worker's epochs: seconds of computation, pull, push and wait, bytes, targets.

    ``spread`` holds quantiles, ascending, of the seconds from a batch's pull to its push.
    """
    rows = [report["traffic"] | {"targets": report["targets"], "seconds": report["seconds"]} for report in reports]
    medians = {name: float(np.median([row[name] for row in rows])) for name in rows[0]}
    batches = [seconds for report in reports for seconds in report["computed"]]
    spread = (
        [float(value) for value in np.quantile(batches, np.linspace(0.0, 1.0, SPREAD_QUANTILES))] if batches else []
    )
    exchanged = medians["pull"] + medians["push"] + medians["wait"]
    return medians | {"spread": spread, "compute": medians["seconds"] - exchanged}
