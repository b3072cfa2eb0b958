"""GraphTrainer on shards that GraphFlat left: each worker reads its own (AGL, section 3.3), no graph is at hand."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import islice

import numpy as np

from backends.agl.backend import AglTrainer
from backends.agl.flat.reader import GraphFeatureReader
from backends.agl.flat.stored import ShardError, Stored
from backends.agl.flat.strategy import Strategy
from backends.agl.train.graphfeatures import GraphFeatureTrainer
from backends.agl.train.plans import WorkerPlan
from backends.base.loss import loss_of
from backends.batches import BatchPlan
from backends.contract import Clock
from backends.model import ModelSpec, State, TrainingSpec
from datasets.csr import Csr
from datasets.graph import NO_SPLIT, SPLITS, Graph


@dataclass(frozen=True)
class ShardPlan(WorkerPlan):
    """A worker's own shards in a folder, with the number of records to train in each; no batch is across shards."""

    folder: str = ""
    shards: tuple[int, ...] = ()
    trained: tuple[int, ...] = ()

    @property
    def batches(self) -> int:
        """See ``BatchPlan``."""
        assert self.size is not None
        return sum(-(-count // self.size) for count in self.trained)

    def dealt(self, workers: int) -> tuple["ShardPlan", ...]:
        """Deal the shards out; raises ShardError where there are fewer than workers."""
        if len(self.shards) < workers:
            raise ShardError(
                f"{self.folder} has {len(self.shards)} shards for {workers} workers, and each reads its own: lower "
                "workers, or flatten with fewer --shard-records"
            )
        parts = [(self.shards[rank::workers], self.trained[rank::workers]) for rank in range(workers)]
        return tuple(
            replace(self, nodes=np.arange(sum(trained)), shards=shards, trained=trained) for shards, trained in parts
        )


class ShardTrainer(GraphFeatureTrainer):
    """Trains the records of split train from shards; ``graph`` holds the targets and their labels alone."""

    def prepare(
        self, graph: Graph, spec: ModelSpec, training: TrainingSpec, state: State, plan: BatchPlan, clock: Clock
    ) -> None:
        """See ``Trainer``; the plan is a ``ShardPlan``."""
        assert isinstance(plan, ShardPlan)
        self.reader = GraphFeatureReader(plan.folder)
        self.strategy = strategy_in(self.reader)
        AglTrainer.prepare(self, graph, spec, training, state, plan, clock)

    def read(self, index: int) -> Iterator[Stored]:
        """See ``GraphFeatureTrainer``; after a restart the batches that were trained are left out."""
        plan = self.plan
        assert isinstance(plan, ShardPlan) and plan.size is not None
        return islice(self.reader.stored(plan.size, plan.seed + index, "train", plan.shards), plan.skip, None)

    def validation_loss(self) -> float | None:
        """Mean loss over the records of split validation in the shards of the plan; ``None`` where there are none."""
        import torch

        plan, total, count = self.plan, 0.0, 0
        assert isinstance(plan, ShardPlan) and plan.size is not None
        self.model.eval()
        with torch.no_grad():
            for stored in self.reader.stored(plan.size, split="validation", shards=plan.shards):
                batch = self.vectorized(stored)
                total += float(loss_of(self.logits(batch), self.batch_labels(batch))) * len(batch.targets)
                count += len(batch.targets)
        return total / count if count else None

    def close(self) -> None:
        """See ``Trainer``; the shards stay."""


def strategy_in(reader: GraphFeatureReader) -> Strategy:
    """How the neighbourhoods of a folder were sampled."""
    held = reader.manifest["strategy"]
    return Strategy(**(held | {"fanouts": tuple(held["fanouts"])}))


def targets_in(reader: GraphFeatureReader) -> Graph:
    """The targets of a folder as a graph without edges and features: ids, labels, splits.

    Raises ShardError where no record is to be trained, or nodes have no features.
    """
    ids, labels, splits = reader.labelled()
    manifest, nodes = reader.manifest, len(ids)
    if not manifest["width"]:
        raise ShardError(f"{reader.folder}: its nodes have no features: flatten a graph that has some")
    if not labels.size or not ((splits == "train") & (labels >= 0).any(axis=1)).any():
        raise ShardError(f"{reader.folder}: no record is labelled and of split train: flatten with --targets labelled")
    held = labels[:, 0] if manifest["task"] == "multiclass" else labels.astype(np.int8)
    numbers = np.array([SPLITS.get(name, NO_SPLIT) for name in splits], dtype=np.int8)
    csr = Csr(np.zeros(nodes + 1, dtype=np.int32), np.zeros(0, dtype=np.int32), (nodes, nodes))
    facts = {name: manifest[name] for name in ("classes", "task")}
    return Graph(manifest["graph"], csr, None, held, numbers, node_ids=ids, **facts)


def plan_of(reader: GraphFeatureReader, size: int, seed: int) -> ShardPlan:
    """All shards of a folder as one worker's, in batches of ``size`` records."""
    numbers = tuple(range(len(reader.shards)))
    trained = tuple(int((reader.splits(number) == "train").sum()) for number in numbers)
    return ShardPlan(np.arange(sum(trained)), size, None, seed, 0, str(reader.folder.resolve()), numbers, trained)
