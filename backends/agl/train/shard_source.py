"""Batches of GraphFlat's shards alone (AGL, section 3.3): of shards that exist, or of shards written for one run."""

import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import islice, zip_longest
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from backends.agl.config import AglConfig
from backends.agl.flat.drivers import flatten_batches
from backends.agl.flat.flattener import strategy_of
from backends.agl.flat.job import FlattenJob, flatten_to
from backends.agl.flat.reader import EncodedRecords, GraphFeatureReader, ShardError, sampling_of
from backends.agl.flat.rounds import Ints
from backends.agl.flat.source import Source
from backends.agl.networks import builder_of
from backends.agl.train.source import BatchSource, ShardPlan
from backends.agl.vectorize import matrices_of_records
from backends.base.loss import targets_of
from backends.base.sparse_rows import SparseRows
from backends.base.trainer import Batch
from backends.batches import BatchPlan
from backends.contract import Clock, Nodes
from backends.kernels.graphfeatures import Strings
from backends.model import ModelSpec, TrainingSpec
from datasets.csr import Csr
from datasets.graph import SPLITS, Graph

if TYPE_CHECKING:
    from backends.agl.backend import AglTrainer


class ShardSource(BatchSource):
    """Batches of the records of split train in the shards of a ``ShardPlan``.

    The trainer's graph holds only the targets, their labels and splits. Each epoch reads shards and their rows in a
    shuffled order, every target once.
    """

    def open(self, trainer: "AglTrainer", clock: Clock) -> Graph:
        """Open the shards of the plan."""
        assert isinstance(trainer.plan, ShardPlan)
        self.read(trainer, GraphFeatureReader(trainer.plan.folder), trainer.graph)
        return trainer.graph

    def read(self, trainer: "AglTrainer", reader: GraphFeatureReader, graph: Graph) -> None:
        """Read shards for a trainer; the ids of their targets become node numbers of ``graph``."""
        self.trainer, self.reader, self.strategy = trainer, reader, sampling_of(reader)
        ids = np.arange(graph.nodes) if graph.node_ids is None else np.asarray(graph.node_ids)
        self.by_id = np.argsort(ids, kind="stable")
        self.sorted_ids = ids[self.by_id]

    def is_sparse(self, graph: Graph) -> bool:
        """Whether shards hold features sparse."""
        return bool(self.reader.manifest.get("sparse"))

    def prepare(self) -> Batch | None:
        """Vectorise a full batch once."""
        if not self.trainer.plan.full_batch:
            return None
        batch = self.batch(next(self.reader.encoded_batches(len(self.reader))))
        return replace(batch, labels=targets_of(self.trainer.graph, batch.targets))

    def items(self, index: int) -> Iterator[EncodedRecords]:
        """The encoded training batches of an epoch, without those trained before a restart."""
        plan = self.trainer.plan
        assert isinstance(plan, ShardPlan) and plan.size is not None
        return islice(self.reader.encoded_batches(plan.size, plan.seed + index, "train", plan.shards), plan.skip, None)

    def batch(self, item: EncodedRecords) -> Batch:
        """Merge records and build each layer's pruned matrix from their edges, degrees and weights."""
        trainer = self.trainer
        builder = builder_of(trainer.spec)
        merged, features, structure = matrices_of_records(item, builder, self.strategy, trainer.form)
        if isinstance(features, SparseRows) and not trainer.sparse_input:
            features = features.dense()
        targets = self.by_id[np.searchsorted(self.sorted_ids, merged.neighbourhood.nodes[merged.roots])]
        numbers = torch.from_numpy(np.asarray(merged.neighbourhood.nodes, dtype=np.int64))
        return Batch(structure, features, targets, torch.from_numpy(merged.roots), nodes=numbers)

    def batch_of(self, targets: Nodes) -> Batch:
        """Raise ShardError: other targets are in no shard."""
        raise ShardError(f"{self.reader.folder} holds its own targets alone: train from the graph to try others")

    def validation(self) -> Iterator[Batch]:
        """Batches of the validation records in the shards of the plan."""
        plan = self.trainer.plan
        assert isinstance(plan, ShardPlan) and plan.size is not None
        return map(self.batch, self.reader.encoded_batches(plan.size, split="validation", shards=plan.shards))

    def facts(self) -> dict[str, Any]:
        """Records, and bytes read of them."""
        return {"records": len(self.reader), "bytes_read": self.reader.bytes_read}


def targets_of_shards(reader: GraphFeatureReader, shards: Sequence[int] | None = None) -> Graph:
    """The targets of some shards, or of all, as a graph without edges and features: ids, labels, splits.

    Raises ShardError where all shards have no training record, or nodes have no features.
    """
    (ids, labels, splits), manifest = reader.labelled(shards), reader.manifest
    if not manifest["width"]:
        raise ShardError(f"{reader.folder}: its nodes have no features: flatten a graph that has some")
    if shards is None and not (splits == SPLITS["train"]).any():
        raise ShardError(
            f"{reader.folder}: no record is labelled and of split train: flatten with --targets labelled, and give a "
            "column of splits or shares to draw, as in --split 0.8,0.1,0.1"
        )
    values = labels[:, 0] if manifest["task"] == "multiclass" else labels.astype(np.int8)
    csr = Csr(np.zeros(len(ids) + 1, dtype=np.int32), np.zeros(0, dtype=np.int32), (len(ids), len(ids)))
    facts = {name: manifest[name] for name in ("classes", "task")}
    return Graph(manifest["graph"], csr, None, values, splits, node_ids=ids, **facts)


@dataclass(frozen=True)
class WorkersJob(FlattenJob):
    """A job in this process that gives each worker an equal part of the targets, in shards of its own."""

    workers: int = 1

    def shards_of(self, targets: Ints) -> list[Ints]:
        """Split each worker's targets into shards, in the order in which ``ShardPlan.deal`` deals them."""
        parts = map(super().shards_of, np.array_split(targets, self.workers))
        return [shard for row in zip_longest(*parts) for shard in row if shard is not None]


class FlattenedTargets:
    """A temporary folder with the GraphFeatures of a plan's targets, for one run."""

    def __init__(self, config: AglConfig, graph: Graph, spec: ModelSpec, training: TrainingSpec) -> None:
        self.config, self.spec, self.training = config, spec, training
        self.graph = graph.with_dense_features("backend.sparse=false") if config.sparse == "false" else graph
        self.temporary = tempfile.TemporaryDirectory(prefix="graphfeatures-", ignore_cleanup_errors=True)
        self.folder = Path(self.temporary.name)

    def flatten(self, plan: BatchPlan, folder: Path | None = None) -> GraphFeatureReader:
        """Flatten the targets that a plan trains, each worker's in shards of whole batches.

        A batch is of one shard: other shards would cost a worker steps that the plan does not have.
        """
        folder = folder or self.folder / "shards"
        targets = plan.nodes if plan.limit is None else np.concatenate(plan.targets(0))
        batch = plan.size or len(plan.nodes)
        records = batch * max(1, FlattenJob.shard_records // batch)
        embed = self.config.features == "embedded"
        strategy = strategy_of(self.config, self.spec, self.training.seed)
        threads, workers = self.training.threads, self.config.workers
        job = WorkersJob(strategy, self.config.filter, embed, records, threads=threads, workers=workers)
        flatten_to(folder, self.graph, np.sort(targets), job)
        return GraphFeatureReader(folder)

    def facts(self, reader: GraphFeatureReader) -> dict[str, Any]:
        """Bytes of the shards that are read, stored nodes per distinct node of them."""
        size = sum(path.stat().st_size for path in reader.folder.rglob("*") if path.is_file())
        return {"bytes_on_disk": size, "duplication": reader.manifest["duplication"]}

    def remove(self) -> None:
        """Remove the folder."""
        self.temporary.cleanup()


class FlattenedSource(ShardSource):
    """Flattens the targets once (phase ``flatten``), then reads the shards alone.

    Batches are not those of the plan, whose targets are flattened: with a limit only those that it trains.
    ``batch_of`` flattens its own targets.
    """

    def open(self, trainer: "AglTrainer", clock: Clock) -> Graph:
        """Flatten the targets into a temporary folder."""
        self.flattened = FlattenedTargets(trainer.config, trainer.graph, trainer.spec, trainer.training)
        with clock.phase("flatten"):
            reader = self.flattened.flatten(trainer.plan)
        self.read(trainer, reader, self.flattened.graph)
        return self.flattened.graph

    @cached_property
    def edges(self) -> Source:
        """The graph's edges, to flatten other targets than the plan's."""
        folder = self.flattened.folder / "source"
        return Source.build(self.flattened.graph, self.strategy, self.trainer.config.filter, folder)

    def items(self, index: int) -> Iterator[EncodedRecords]:
        """The encoded batches of an epoch, from disk or, as ``page_cache`` says, from the pages that are in memory."""
        plan = self.trainer.plan
        assert plan.size is not None
        if self.trainer.config.page_cache == "cold":
            self.reader.drop_pages()
        return islice(self.reader.encoded_batches(plan.size, plan.seed + index), plan.limit)

    def batch_of(self, targets: Nodes) -> Batch:
        """Vectorise the GraphFeatures of any targets, encoded and decoded like those on disk."""
        encoded = flatten_batches(self.edges, targets, self.strategy)
        strings = Strings.of([string for batch in encoded for string in batch.strings.strings.split()])
        batch = self.batch(EncodedRecords(self.reader.manifest, strings, np.arange(len(targets))))
        return replace(batch, labels=targets_of(self.trainer.graph, batch.targets))

    validation = BatchSource.validation  # their records are in no shard

    def facts(self) -> dict[str, Any]:
        """Also bytes of the shards, stored nodes per distinct node."""
        return super().facts() | self.flattened.facts(self.reader)

    def close(self) -> None:
        """Remove the shards, which were written for this run."""
        self.flattened.remove()
