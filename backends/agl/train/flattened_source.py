"""Batches of GraphFeatures that are written for one run: the graph is flattened, then read shard by shard."""

import shutil
import tempfile
import weakref
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import islice, zip_longest
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from backends.agl.config import AglConfig
from backends.agl.flat.encoded_records import EncodedRecords
from backends.agl.flat.flattener import strategy_of
from backends.agl.flat.job import FlattenJob, flatten_to
from backends.agl.flat.local import flatten_batches
from backends.agl.flat.reader import GraphFeatureReader
from backends.agl.flat.rounds import Ints
from backends.agl.flat.source import Source
from backends.agl.train.shard_source import ShardSource
from backends.base.loss import targets_of
from backends.base.trainer import Batch
from backends.batches import BatchPlan
from backends.contract import Clock, Nodes
from backends.kernels.graphfeatures import Strings
from backends.model import ModelSpec, TrainingSpec
from datasets.graph import Graph

if TYPE_CHECKING:
    from backends.agl.backend import AglTrainer


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
        self.folder = Path(tempfile.mkdtemp(prefix="graphfeatures-"))
        self._cleanup = weakref.finalize(self, shutil.rmtree, self.folder, True)

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
        """Bytes of the folder, stored nodes per distinct node of the shards that are read."""
        size = sum(path.stat().st_size for path in self.folder.rglob("*") if path.is_file())
        return {"bytes_on_disk": size, "duplication": reader.manifest["duplication"]}

    def remove(self) -> None:
        """Remove the folder."""
        self._cleanup()


class FlattenedSource(ShardSource):
    """Flattens the targets once (phase ``flatten``), then reads the shards alone.

    Batches are not those of the plan, whose targets are flattened: with a limit only those that it trains.
    ``batch_of`` flattens its own targets.
    """

    def open(self, trainer: "AglTrainer", clock: Clock) -> Graph:
        """Flatten the targets into a temporary folder."""
        self.trainer = trainer
        self.flattened = FlattenedTargets(trainer.config, trainer.graph, trainer.spec, trainer.training)
        self.strategy = strategy_of(trainer.config, trainer.spec, trainer.training.seed)
        with clock.phase("flatten"):
            self.reader = self.flattened.flatten(trainer.plan)
            folder = self.flattened.folder / "source"
            self.edges = Source.build(self.flattened.graph, self.strategy, trainer.config.filter, folder)
        return self.flattened.graph

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
        batch = self.batch(EncodedRecords(None, strings, np.arange(len(targets))))
        return replace(batch, labels=targets_of(self.trainer.graph, batch.targets))

    def validation(self) -> Iterator[Batch]:
        """Batches of the labelled validation nodes."""
        return map(self.batch_of, self.trainer.validation_targets())

    def facts(self) -> dict[str, Any]:
        """Also bytes of the shards, stored nodes per distinct node."""
        return super().facts() | self.flattened.facts(self.reader)

    def close(self) -> None:
        """Remove the shards, which were written for this run."""
        self.flattened.remove()
