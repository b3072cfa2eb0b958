"""GraphTrainer on GraphFeatures (AGL, section 3.3): flattens the graph, then reads shards shuffled by epoch."""

import shutil
import tempfile
import weakref
from collections.abc import Iterator
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import torch

from backends.agl.backend import AglTrainer
from backends.agl.config import AglConfig
from backends.agl.flat.encoded_records import EncodedRecords
from backends.agl.flat.flattener import strategy_of
from backends.agl.flat.job import FlattenJob, flatten_to
from backends.agl.flat.local import flatten_batches
from backends.agl.flat.reader import GraphFeatureReader
from backends.agl.flat.source import Source
from backends.agl.networks import builder_of
from backends.agl.vectorize import matrices_of_records
from backends.base.layered import LayerMatrix
from backends.base.layered_trainer import LayeredTrainer
from backends.base.loss import targets_of
from backends.base.sparse_rows import SparseRows
from backends.base.trainer import Batch
from backends.batches import BatchPlan
from backends.contract import Clock, Nodes
from backends.kernels.graphfeatures import Strings
from backends.model import ModelSpec, State, TrainingSpec
from backends.parallel.prefetch import prefetched
from datasets.graph import Graph


def flatten_targets(
    folder: Path, config: AglConfig, graph: Graph, spec: ModelSpec, training: TrainingSpec, plan: BatchPlan
) -> dict[str, Any]:
    """Flatten the targets that a plan trains, in as many shards as there are workers at least; returns the manifest."""
    strategy = strategy_of(config, spec, training.seed)
    targets = plan.nodes if plan.limit is None else np.concatenate(plan.targets(0))
    records = max(FlattenJob.shard_records, plan.size or len(plan.nodes))
    records = min(records, max(1, len(targets) // config.workers))
    embed = config.features == "embedded"
    job = FlattenJob(strategy, config.filter, embed, records, threads=training.threads)
    return flatten_to(folder, graph, np.sort(targets), job)


class GraphFeatureTrainer(AglTrainer):
    """Flattens the targets once (phase ``flatten``), then trains from the shards alone.

    An epoch reads shards and their rows in a shuffled order, as the paper's workers do: every target once, but not in
    the batches of the plan. With a limit in the plan only the targets that it trains are flattened.
    ``loss_and_gradients`` flattens its own targets.
    """

    def prepare(
        self, graph: Graph, spec: ModelSpec, training: TrainingSpec, state: State, plan: BatchPlan, clock: Clock
    ) -> None:
        """Flatten the targets into a temporary folder, then prepare the model."""
        if self.config.sparse == "false":
            graph = graph.with_dense_features("backend.sparse=false")
        self.temporary = Path(tempfile.mkdtemp(prefix="graphfeatures-"))
        self._cleanup = weakref.finalize(self, shutil.rmtree, self.temporary, True)
        with clock.phase("flatten"):
            self.manifest = flatten_targets(self.temporary / "shards", self.config, graph, spec, training, plan)
            strategy = strategy_of(self.config, spec, training.seed)
            self.source = Source.build(graph, strategy, self.config.filter, self.temporary / "source")
        self.reader, self.strategy = GraphFeatureReader(self.temporary / "shards"), strategy
        super().prepare(graph, spec, training, state, plan, clock)

    @property
    def sparse_input(self) -> bool:
        """Whether the first layer multiplies sparse features, where shards hold them so."""
        return bool(self.reader.manifest.get("sparse")) and bool(self.config.on("sparse"))

    def prepare_structure(self) -> None:
        """Sort the ids, to map them back to node numbers; vectorise a full batch once."""
        ids = np.arange(self.graph.nodes) if self.graph.node_ids is None else np.asarray(self.graph.node_ids)
        self.by_id = np.argsort(ids, kind="stable")
        self.sorted_ids = ids[self.by_id]
        if self.plan.full_batch:
            batch = self.vectorize(next(self.reader.encoded_batches(len(self.reader))))
            self.full = replace(batch, labels=targets_of(self.graph, batch.targets))

    def kept_matrices(self) -> list[tuple[int, LayerMatrix]]:
        """The matrices of a full batch; those of mini batches are decoded from shards, each for itself."""
        return LayeredTrainer.kept_matrices(self)

    def mini_batch(self, targets: Nodes) -> Batch:
        """Vectorise the GraphFeatures of any targets, encoded and decoded like those on disk."""
        encoded = flatten_batches(self.source, targets, self.strategy)
        strings = Strings.of([string for batch in encoded for string in batch.strings.strings.split()])
        return self.vectorize(EncodedRecords(None, strings, np.arange(len(targets))))

    def target_batch(self, targets: Nodes) -> Batch:
        """The batch of any targets, with labels in the order of the batch."""
        batch = self.mini_batch(targets)
        return replace(batch, labels=targets_of(self.graph, batch.targets))

    def vectorize(self, records: EncodedRecords) -> Batch:
        """Merge records and build each layer's pruned matrix from their edges, degrees and weights."""
        manifest, builder = self.reader.manifest, builder_of(self.spec)
        columns = manifest["weighted"], manifest.get("edge_width", 0)
        merged, features, structure = matrices_of_records(records, builder, self.strategy, self.form, *columns)
        if isinstance(features, SparseRows) and not self.sparse_input:
            features = features.dense()
        targets = self.by_id[np.searchsorted(self.sorted_ids, merged.neighbourhood.nodes[merged.roots])]
        numbers = torch.from_numpy(np.asarray(merged.neighbourhood.nodes, dtype=np.int64))
        return Batch(structure, features, targets, torch.from_numpy(merged.roots), nodes=numbers)

    def batches(self, index: int, clock: Clock) -> Iterator[Batch]:
        """Read, merge and vectorise the batches of an epoch; the pipeline, where it runs, prepares the next one."""
        if self.plan.full_batch:
            yield self.full
            return
        if self.overlaps:
            yield from prefetched(self.vectorize, self.read(index), clock, self.config.loaders)
            return
        vectorized = map(self.vectorize, self.read(index))
        while True:
            with clock.phase("vectorize"):
                batch = next(vectorized, None)
            if batch is None:
                return
            yield batch

    def read(self, index: int) -> Iterator[EncodedRecords]:
        """The encoded batches of an epoch, from disk or, as ``page_cache`` says, from the pages that are in memory."""
        assert self.plan.size is not None
        if self.config.page_cache == "cold":
            self.reader.drop_pages()
        return islice(self.reader.encoded_batches(self.plan.size, self.plan.seed + index), self.plan.limit)

    def facts(self) -> dict[str, Any]:
        """Facts of the trainer, bytes of the shards and bytes read from them, stored nodes per distinct node."""
        storage = {"bytes_on_disk": sum(path.stat().st_size for path in self.temporary.rglob("*") if path.is_file())}
        storage |= {"records": len(self.reader), "bytes_read": self.reader.bytes_read}
        return super().facts() | storage | {"duplication": self.manifest["duplication"]}

    def close(self) -> None:
        """Remove the shards, which were written for this run."""
        super().close()
        self._cleanup()
