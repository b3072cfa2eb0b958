"""Batches of GraphFlat's shards alone, without the graph: each worker reads its own shards (AGL, section 3.3)."""

from collections.abc import Iterator
from dataclasses import replace
from itertools import islice
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from backends.agl.flat.encoded_records import EncodedRecords, ShardError
from backends.agl.flat.reader import GraphFeatureReader, sampling_of
from backends.agl.flat.sampling_strategy import SamplingStrategy
from backends.agl.networks import builder_of
from backends.agl.train.plans import ShardPlan
from backends.agl.vectorize import matrices_of_records
from backends.base.layered import LayerMatrix
from backends.base.loss import targets_of
from backends.base.sparse_rows import SparseRows
from backends.base.trainer import Batch
from backends.contract import Clock, Nodes
from datasets.csr import Csr
from datasets.graph import NO_SPLIT, SPLITS, Graph

if TYPE_CHECKING:
    from backends.agl.backend import AglTrainer


class ShardSource:
    """A ``BatchSource`` of the records of split train in the shards of a ``ShardPlan``.

    The trainer's graph holds only the targets, their labels and splits. Each epoch reads shards and their rows in a
    shuffled order, every target once.
    """

    trainer: "AglTrainer"
    reader: GraphFeatureReader
    strategy: SamplingStrategy

    def open(self, trainer: "AglTrainer", clock: Clock) -> Graph:
        """Open the shards of the plan."""
        assert isinstance(trainer.plan, ShardPlan)
        self.read(trainer, trainer.plan)
        return trainer.graph

    def read(self, trainer: "AglTrainer", plan: ShardPlan) -> None:
        """Read the shards of a plan for a trainer, whose own plan may be another."""
        self.trainer, self.reader = trainer, GraphFeatureReader(plan.folder)
        self.strategy = sampling_of(self.reader)

    def is_sparse(self, graph: Graph) -> bool:
        """Whether shards hold features sparse."""
        return bool(self.reader.manifest.get("sparse"))

    def prepare(self) -> Batch | None:
        """Prepare to number targets; vectorise a full batch once."""
        graph = self.trainer.graph
        self.number(graph)
        if not self.trainer.plan.full_batch:
            return None
        batch = self.batch(next(self.reader.encoded_batches(len(self.reader))))
        return replace(batch, labels=targets_of(graph, batch.targets))

    def number(self, graph: Graph) -> None:
        """Sort the ids of a graph's nodes, to map the records' ids back to node numbers."""
        ids = np.arange(graph.nodes) if graph.node_ids is None else np.asarray(graph.node_ids)
        self.by_id = np.argsort(ids, kind="stable")
        self.sorted_ids = ids[self.by_id]

    def kept_matrices(self) -> list[tuple[int, LayerMatrix]]:
        """None: the matrices of mini batches are decoded from shards, each for itself."""
        return []

    def begin(self, index: int) -> None:
        """Nothing changes: the samples are those of the shards."""

    def items(self, index: int) -> Iterator[EncodedRecords]:
        """The encoded training batches of an epoch, without those trained before a restart."""
        plan = self.trainer.plan
        assert isinstance(plan, ShardPlan) and plan.size is not None
        return islice(self.reader.encoded_batches(plan.size, plan.seed + index, "train", plan.shards), plan.skip, None)

    def batch(self, item: EncodedRecords) -> Batch:
        """Merge records and build each layer's pruned matrix from their edges, degrees and weights."""
        trainer = self.trainer
        columns = self.reader.manifest["weighted"], self.reader.edge_width
        merged, features, structure = matrices_of_records(
            item, builder_of(trainer.spec), self.strategy, trainer.form, *columns
        )
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
