"""GraphTrainer on GraphFlat's shards alone, without the graph: each worker reads its own shards (AGL, section 3.3)."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import islice

import numpy as np

from backends.agl.backend import AglTrainer
from backends.agl.flat.encoded_records import EncodedRecords, ShardError
from backends.agl.flat.reader import GraphFeatureReader, sampling_of
from backends.agl.train.graphfeature_trainer import GraphFeatureTrainer
from backends.agl.train.worker_plan import WorkerPlan
from backends.batches import BatchPlan
from backends.contract import Clock
from backends.model import ModelSpec, State, TrainingSpec
from datasets.csr import Csr
from datasets.graph import NO_SPLIT, SPLITS, Graph


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


class ShardTrainer(GraphFeatureTrainer):
    """Trains the records of split train; ``graph`` holds only the targets, their labels and splits."""

    def prepare(
        self, graph: Graph, spec: ModelSpec, training: TrainingSpec, state: State, plan: BatchPlan, clock: Clock
    ) -> None:
        """Open the shards of the plan, which is a ``ShardPlan``, and prepare the model."""
        assert isinstance(plan, ShardPlan)
        self.reader = GraphFeatureReader(plan.folder)
        self.strategy = sampling_of(self.reader)
        AglTrainer.prepare(self, graph, spec, training, state, plan, clock)

    def read(self, index: int) -> Iterator[EncodedRecords]:
        """The encoded training batches of an epoch, without those trained before a restart."""
        plan = self.plan
        assert isinstance(plan, ShardPlan) and plan.size is not None
        return islice(self.reader.encoded_batches(plan.size, plan.seed + index, "train", plan.shards), plan.skip, None)

    def validation_loss(self) -> float | None:
        """Mean loss over the validation records in the shards of the plan; ``None`` where there are none."""
        plan = self.plan
        assert isinstance(plan, ShardPlan) and plan.size is not None
        records = self.reader.encoded_batches(plan.size, split="validation", shards=plan.shards)
        return self.mean_loss(map(self.vectorize, records))

    def close(self) -> None:
        """Nothing to remove: the shards are the user's."""


def labelled_targets(reader: GraphFeatureReader) -> Graph:
    """The targets of a folder as a graph without edges and features: ids, labels, splits.

    Raises ShardError where there is no training record, or nodes have no features.
    """
    ids, labels, splits = reader.labelled()
    manifest = reader.manifest
    if not manifest["width"]:
        raise ShardError(f"{reader.folder}: its nodes have no features: flatten a graph that has some")
    if not labels.size or not ((splits == "train") & (labels >= 0).any(axis=1)).any():
        raise ShardError(
            f"{reader.folder}: no record is labelled and of split train: flatten with --targets labelled, and give a "
            "column of splits or shares to draw, as in --split 0.8,0.1,0.1"
        )
    return _targets(reader, ids, labels, splits)


def targets_of_shards(plan: ShardPlan) -> Graph:
    """The targets of a worker's own shards, as of ``labelled_targets``."""
    reader = GraphFeatureReader(plan.folder)
    return _targets(reader, *reader.labelled(plan.shards))


def _targets(reader: GraphFeatureReader, ids: np.ndarray, labels: np.ndarray, splits: np.ndarray) -> Graph:
    manifest, nodes = reader.manifest, len(ids)
    values = labels[:, 0] if manifest["task"] == "multiclass" else labels.astype(np.int8)
    numbers = np.array([SPLITS.get(name, NO_SPLIT) for name in splits], dtype=np.int8)
    csr = Csr(np.zeros(nodes + 1, dtype=np.int32), np.zeros(0, dtype=np.int32), (nodes, nodes))
    facts = {name: manifest[name] for name in ("classes", "task")}
    return Graph(manifest["graph"], csr, None, values, numbers, node_ids=ids, **facts)


def shard_plan_of(reader: GraphFeatureReader, size: int, seed: int) -> ShardPlan:
    """The plan of one worker on all shards of a folder, in batches of ``size`` records."""
    numbers = tuple(range(len(reader.shards)))
    trained = tuple(int((reader.splits(number) == "train").sum()) for number in numbers)
    return ShardPlan(np.arange(sum(trained)), size, None, seed, 0, str(reader.folder.resolve()), numbers, trained)
