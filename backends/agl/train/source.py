"""Where a trainer's batches come from, and which of them each worker trains.

A source is the graph in memory, GraphFlat's shards, or shards that are written first. Batches of the graph in memory
are merged k-hop neighbourhoods, vectorised, pruned per layer (AGL, section 3.3.1).
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from backends.agl.flat.flattener import strategy_of
from backends.agl.flat.reader import GraphFeatureReader, ShardError
from backends.agl.networks import builder_of
from backends.agl.sampled_graph import SampledGraph, UnsampledGraph
from backends.base.layered import LayerMatrix
from backends.base.loss import targets_of
from backends.base.trainer import Batch, original_numbers
from backends.batches import BatchPlan
from backends.contract import Clock, Nodes
from datasets.adjacency import adjacency_of
from datasets.features import SparseFeatures
from datasets.graph import Graph
from datasets.randomness import hash_ids

if TYPE_CHECKING:
    from backends.agl.backend import AglTrainer


class BatchSource:
    """Makes the batches of the trainer that opened it.

    To define: ``open(trainer, clock)``, which takes over a ``trainer`` that has its task, and returns the graph that it
    trains on; ``is_sparse(graph)``: whether features are stored sparse; ``prepare()``, which builds what all epochs
    share, and returns the batch of a full-batch plan; ``items(index)``: what the batches of an epoch are made of, in
    the order of training; ``batch(item)``, called in any thread; ``batch_of(targets)``: the batch of any targets, as in
    the first epoch.
    """

    trainer: "AglTrainer"

    def validation(self) -> Iterator[Batch]:
        """Batches of the labelled validation nodes."""
        return map(self.batch_of, self.trainer.validation_targets())

    def kept_matrices(self) -> list[tuple[int, LayerMatrix]]:
        """Matrices beside those of the full batch that all epochs share, with their layers; none here."""
        return []

    def begin(self, index: int) -> None:
        """Begin an epoch; nothing changes here."""

    def facts(self) -> dict[str, Any]:
        """Facts of the source; none here."""
        return {}

    def close(self) -> None:
        """Remove what was written for this run; nothing was here."""


class GraphSource(BatchSource):
    """Batches of the graph in memory.

    A node has the same sample in every batch and epoch, as in GraphFeatures, which are written once; with ``resample``
    each epoch draws samples of its own.
    """

    def open(self, trainer: "AglTrainer", clock: Clock) -> Graph:
        """Take the graph as it is."""
        self.trainer = trainer
        return trainer.graph

    def is_sparse(self, graph: Graph) -> bool:
        """Whether features are stored sparse."""
        return isinstance(graph.features, SparseFeatures)

    def prepare(self) -> Batch | None:
        """Compute weights on the whole graph; vectorise the neighbourhood of a full batch once."""
        trainer, graph, spec = self.trainer, self.trainer.graph, self.trainer.spec
        self.neighbourhoods: SampledGraph | UnsampledGraph
        # dropout would be applied to the features of all nodes
        sums = trainer.aggregates_first(0) and trainer.training.dropout == 0
        config = trainer.config
        if spec.fanouts or config.sampler or config.filter or spec.reads_edges:
            strategy = strategy_of(config, spec, trainer.training.seed)
            self.neighbourhoods = SampledGraph(graph, builder_of(spec), strategy, config.filter, sums)
        else:
            self.neighbourhoods = UnsampledGraph(adjacency_of(graph, spec.name), spec.layers, sums_features=sums)
        assert graph.features is not None
        self.features, self.numbers = trainer.input_of(graph.features), original_numbers(graph, trainer.device)
        self.first_epoch = self.neighbourhoods
        return self._full_batch() if trainer.plan.full_batch else None

    def _full_batch(self) -> Batch:
        trainer = self.trainer
        batch = self.batch(trainer.plan.nodes)
        drops_edges = trainer.spec.name == "gat" and trainer.training.attention_dropout > 0
        structure = numbered(batch.structure) if drops_edges else batch.structure
        return replace(batch, structure=structure, labels=targets_of(trainer.graph, trainer.plan.nodes))

    def kept_matrices(self) -> list[tuple[int, LayerMatrix]]:
        """The whole graph's matrix, where layers of the first mini batch use its transpose."""
        trainer, graph = self.trainer, self.neighbourhoods
        if trainer.plan.full_batch or not isinstance(graph, UnsampledGraph) or trainer.form != "tight":
            return []
        layers = enumerate(graph.layers(np.sort(trainer.plan.targets(0)[0]), trainer.form)[0])
        return [pair for pair in layers if pair[1].csr is graph.csr or trainer.model.transposes_origin(*pair)]

    def begin(self, index: int) -> None:
        """With ``resample``, switch to the samples of epoch ``index``."""
        if self.trainer.config.resample and isinstance(self.first_epoch, SampledGraph):
            self.neighbourhoods = self.first_epoch.of_epoch(index)
            if self.trainer.plan.full_batch:
                self.trainer.full = self._full_batch()

    def items(self, index: int) -> Iterator[Nodes]:
        """Targets of each batch, sorted like the matrices' rows: logits and gradients then need no permutation."""
        return map(np.sort, self.trainer.plan.targets(index))

    def batch(self, item: Nodes) -> Batch:
        """Vectorise the merged k-hop neighbourhood of targets, pruned per layer."""
        matrices, nodes = self.neighbourhoods.layers(item, self.trainer.form)
        in_row_order = matrices[-1].csr.shape[0] == len(item) and bool((item[1:] > item[:-1]).all())
        rows = None if in_row_order else torch.from_numpy(np.unique(item, return_inverse=True)[1])
        if nodes is None:
            return Batch(matrices, self.features, item, rows, nodes=self.numbers)
        inputs = torch.from_numpy(nodes)
        numbers = inputs if self.numbers is None else self.numbers.index_select(0, inputs)
        return Batch(matrices, self.features.index_select(0, inputs), item, rows, nodes=numbers)

    def batch_of(self, targets: Nodes) -> Batch:
        """The batch of any targets, sampled as in the first epoch."""
        self.begin(0)
        return self.batch(targets)


def numbered(matrices: list[LayerMatrix]) -> list[LayerMatrix]:
    """Number the edges of matrices that serve all epochs, where they have no ids, so that masks of attention repeat."""
    matrix_of = {
        id(matrix.csr): replace(matrix.csr, edge_ids=np.arange(matrix.csr.nnz, dtype=np.int64))
        for matrix in matrices
        if matrix.csr.edge_ids is None
    }
    return [replace(matrix, csr=matrix_of.get(id(matrix.csr), matrix.csr)) for matrix in matrices]


@dataclass(frozen=True)
class WorkerPlan(BatchPlan):
    """A worker's own targets; the first ``skip`` batches of the epoch were trained before the worker restarted."""

    skip: int = 0

    def targets(self, epoch: int) -> list[Nodes]:
        """Targets of the batches of an epoch that are still to train."""
        return super().targets(epoch)[self.skip :]

    @property
    def steps(self) -> int:
        """Number of batches in an epoch; 0 without targets."""
        batches = self.batches if len(self.nodes) else 0
        return batches if self.limit is None or self.full_batch else min(batches, self.limit)


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


def shard_plan_of(reader: GraphFeatureReader, size: int, seed: int) -> ShardPlan:
    """The plan of one worker on all shards of a folder, in batches of ``size`` records."""
    numbers = tuple(range(len(reader.shards)))
    trained = tuple(int((reader.splits(number) == "train").sum()) for number in numbers)
    return ShardPlan(np.arange(sum(trained)), size, None, seed, 0, str(reader.folder.resolve()), numbers, trained)


def deal_targets(plan: BatchPlan, workers: int) -> tuple[WorkerPlan, ...]:
    """Distribute targets by hash, in parts that differ by at most one; workers share a limit on batches."""
    order = np.argsort(hash_ids(plan.seed, "workers", plan.nodes), kind="stable")
    limit = None if plan.limit is None else -(-plan.limit // workers)
    parts = [np.sort(plan.nodes[order[rank::workers]]) for rank in range(workers)]
    return tuple(WorkerPlan(part, plan.size, limit, plan.seed) for part in parts)
