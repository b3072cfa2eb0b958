"""GraphTrainer on an in-memory graph: k-hop batches, vectorised, pruned per layer, prefetched (AGL, section 3.3)."""

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import torch

from backends.agl.flat.flattener import strategy_of
from backends.agl.flat.sampling_strategy import StrategyError, columns_of, refuse_unused_columns
from backends.agl.networks import builder_of, network_of
from backends.agl.sampled_graph import SampledGraph
from backends.agl.unsampled_graph import UnsampledGraph
from backends.base.inferrer import TorchInferrer
from backends.base.layered import LayerMatrix
from backends.base.layered_trainer import LayeredTrainer
from backends.base.loss import targets_of
from backends.base.network import Network
from backends.base.trainer import Batch, original_numbers
from backends.batches import BatchPlan
from backends.contract import Clock, Nodes, Unsupported
from backends.model import ModelSpec, TrainingSpec
from backends.parallel.prefetch import prefetched
from datasets.adjacency import adjacency_of
from datasets.graph import Graph


class AglTrainer(LayeredTrainer):
    """Trains batches of targets on their merged k-hop neighbourhoods, full or sampled.

    A node has the same sample in every batch and epoch, as in GraphFeatures, which are written once; with ``resample``
    each epoch draws samples of its own.
    """

    draws_fanouts = True

    def network(self, spec: ModelSpec, training: TrainingSpec) -> Network:
        """The model's network; without switch ``partition`` our models aggregate as ``unpartitioned`` says."""
        aggregation = "partitioned" if self.config.on("partition") else str(self.config.unpartitioned)
        return network_of(spec, training, aggregation, self.sparse_input)

    def prepare_structure(self) -> None:
        """Compute weights on the whole graph; vectorise the neighbourhood of a full batch once."""
        self.neighbourhoods: SampledGraph | UnsampledGraph
        # dropout would be applied to the features of all nodes
        sums = self.aggregates_first(0) and self.training.dropout == 0
        if self.spec.fanouts or self.config.sampler or self.config.filter or self.spec.reads_edges:
            strategy = strategy_of(self.config, self.spec, self.training.seed)
            builder = builder_of(self.spec)
            self.neighbourhoods = SampledGraph(self.graph, builder, strategy, self.config.filter, sums)
        else:
            adjacency = adjacency_of(self.graph, self.spec.name)
            self.neighbourhoods = UnsampledGraph(adjacency, self.spec.layers, sums_features=sums)
        assert self.graph.features is not None
        self.features, self.numbers = self.input_of(self.graph.features), original_numbers(self.graph, self.device)
        self.first_epoch = self.neighbourhoods
        if self.plan.full_batch:
            self.full = self._full_batch()

    def kept_matrices(self) -> list[tuple[int, LayerMatrix]]:
        """Also the whole graph's matrix, where layers of the first batch use its transpose."""
        graph = self.neighbourhoods
        if self.plan.full_batch or not isinstance(graph, UnsampledGraph) or self.form != "tight":
            return super().kept_matrices()
        layers = enumerate(graph.layers(np.sort(self.plan.targets(0)[0]), self.form)[0])
        return [pair for pair in layers if pair[1].csr is graph.csr or self.model.transposes_origin(*pair)]

    def refuse_columns(self, graph: Graph, spec: ModelSpec, training: TrainingSpec, plan: BatchPlan) -> None:
        """Raise Unsupported for columns of the edges that neither the model nor sampling nor the filter reads."""
        try:
            refuse_unused_columns(
                spec, strategy_of(self.config, spec, training.seed), self.config.filter, columns_of(graph), graph.name
            )
        except StrategyError as error:
            raise Unsupported(str(error)) from error

    @property
    def form(self) -> str:
        """The form of the layer matrices: that of pruning, or not pruned."""
        return str(self.config.form) if self.config.on("pruning") else "full"

    def _full_batch(self) -> Batch:
        batch = self.mini_batch(self.plan.nodes)
        drops_edges = self.spec.name == "gat" and self.training.attention_dropout > 0
        structure = numbered(batch.structure) if drops_edges else batch.structure
        return replace(batch, structure=structure, labels=targets_of(self.graph, self.plan.nodes))

    def is_captured(self) -> bool:
        """Not where ``resample`` makes another batch in each epoch."""
        return not self.config.resample and super().is_captured()

    def _resample(self, index: int) -> None:
        """With ``resample``, switch to the samples of epoch ``index``."""
        if self.config.resample and isinstance(self.first_epoch, SampledGraph):
            self.neighbourhoods = self.first_epoch.of_epoch(index)
            if self.plan.full_batch:
                self.full = self._full_batch()

    def mini_batch(self, targets: Nodes) -> Batch:
        """Vectorise the merged k-hop neighbourhood of ``targets``, pruned per layer (section 3.3.1)."""
        matrices, nodes = self.neighbourhoods.layers(targets, self.form)
        in_row_order = matrices[-1].csr.shape[0] == len(targets) and bool((targets[1:] > targets[:-1]).all())
        rows = None if in_row_order else torch.from_numpy(np.unique(targets, return_inverse=True)[1])
        if nodes is None:
            return Batch(matrices, self.features, targets, rows, nodes=self.numbers)
        inputs = torch.from_numpy(nodes)
        numbers = inputs if self.numbers is None else self.numbers.index_select(0, inputs)
        return Batch(matrices, self.features.index_select(0, inputs), targets, rows, nodes=numbers)

    @property
    def overlaps(self) -> bool:
        """Whether a thread prepares the next batch during the computation of the current one."""
        return bool(self.config.on("pipeline")) and self.training.threads >= self.config.pipeline_from

    def facts(self) -> dict[str, Any]:
        """Facts of the trainer, with ``overlaps``: whether the pipeline runs."""
        return super().facts() | {"overlaps": not self.plan.full_batch and self.overlaps}

    def target_batch(self, targets: Nodes) -> Batch:
        """The batch of any targets, sampled as in the first epoch."""
        self._resample(0)
        return self.mini_batch(targets)

    def snapshot(self) -> dict[str, Any]:
        """What training needs to go on beside the parameters: the optimizer's state."""
        state: dict[str, Any] = self.optimizer.state_dict()
        return state

    def resume(self, snapshot: dict[str, Any]) -> None:
        """Take over what ``snapshot`` returned, after the parameters were loaded."""
        self.optimizer.load_state_dict(snapshot)

    def validation_loss(self) -> float | None:
        """Mean loss over the labelled validation nodes; ``None`` where there are none."""
        assert self.plan.size is not None
        nodes = labelled_nodes(self.graph, "validation")
        starts = range(0, len(nodes), self.plan.size)
        return self.mean_loss(self.target_batch(nodes[start : start + self.plan.size]) for start in starts)

    def mean_loss(self, batches: Iterable[Batch]) -> float | None:
        """Mean loss over the targets of some batches, without dropout; ``None`` without a batch."""
        total, count = 0.0, 0
        self.model.eval()
        with torch.no_grad():
            for batch in batches:
                total += float(self.loss(self.logits(batch), self.batch_labels(batch))) * len(batch.targets)
                count += len(batch.targets)
        return total / count if count else None

    def batches(self, index: int, clock: Clock) -> Iterator[Batch]:
        """Yield the batches of an epoch; where the pipeline runs, a thread prepares the next one."""
        self._resample(index)
        if self.plan.full_batch:
            yield self.full
        elif self.overlaps:
            yield from prefetched(self.mini_batch, self._ascending_targets(index), clock, self.config.loaders)
        else:
            for targets in self._ascending_targets(index):
                with clock.phase("vectorize"):
                    batch = self.mini_batch(targets)
                yield batch

    def _ascending_targets(self, index: int) -> Iterator[Nodes]:
        """Targets of each batch, sorted like the matrices' rows: logits and gradients then need no permutation."""
        return map(np.sort, self.plan.targets(index))


def numbered(matrices: list[LayerMatrix]) -> list[LayerMatrix]:
    """Number the edges of matrices that serve all epochs, where they have no ids, so that masks of attention repeat."""
    matrix_of = {
        id(matrix.csr): replace(matrix.csr, edge_ids=np.arange(matrix.csr.nnz, dtype=np.int64))
        for matrix in matrices
        if matrix.csr.edge_ids is None
    }
    return [replace(matrix, csr=matrix_of.get(id(matrix.csr), matrix.csr)) for matrix in matrices]


def labelled_nodes(graph: Graph, split: str) -> Nodes:
    """The nodes of a split that have a label."""
    nodes = graph.nodes_of(split)
    assert graph.labels is not None
    return nodes[(graph.labels[nodes] >= 0).reshape(len(nodes), -1).any(axis=1)]


class AglInferrer(TorchInferrer):
    """Scores nodes by the full-graph forward pass of the same network."""

    trainer_class = AglTrainer
