"""GraphTrainer on an in-memory graph: k-hop batches, vectorised, pruned, overlapped with compute."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import torch

from backends.agl.flat.flattener import strategy_of
from backends.agl.sampled import SampledGraph
from backends.agl.whole import WholeGraph
from backends.base.inferrer import TorchInferrer
from backends.base.layered import LayeredNetwork, LayeredTrainer
from backends.base.loss import targets_of
from backends.base.network import Network
from backends.base.trainer import Batch
from backends.contract import Clock, Nodes
from backends.model import ModelSpec, TrainingSpec
from backends.parallel.prefetch import overlapped
from datasets.adjacency import adjacency_of


class AglTrainer(LayeredTrainer):
    """Trains target batches on the k-hop neighbourhoods of their targets, merged; whole ones, or samples of them.

    A node's sample is the same in every batch and epoch, as it is in GraphFeatures, which are made once; with
    ``resample`` each epoch has its own, drawn by the seed of the epoch.
    """

    draws_fanouts = True

    def network(self, spec: ModelSpec, training: TrainingSpec) -> Network:
        """See ``TorchTrainer``."""
        return LayeredNetwork(spec, training, self.config.on("partition"))

    def prepare_structure(self) -> None:
        """Normalise on the whole graph; a full batch is one neighbourhood, vectorised once."""
        self.neighbourhoods: SampledGraph | WholeGraph
        if self.spec.fanouts or self.config.sampler or self.config.filter:
            strategy = strategy_of(self.config, self.spec, self.training.seed)
            self.neighbourhoods = SampledGraph(self.graph, self.spec.name, strategy, self.config.filter)
        else:
            sums = self.aggregates_first(0) and self.training.dropout == 0  # it would fall on all features
            self.neighbourhoods = WholeGraph(
                adjacency_of(self.graph, self.spec.name), self.spec.layers, sums_features=sums
            )
        self.features = torch.from_numpy(np.array(self.graph.features, dtype=np.float32))
        self.drawn = self.neighbourhoods
        if self.plan.full_batch:
            self.full = self._full_batch()

    def _full_batch(self) -> Batch:
        return replace(self.mini_batch(self.plan.nodes), labels=targets_of(self.graph, self.plan.nodes))

    def _draw(self, index: int) -> None:
        """Turn to the samples of an epoch."""
        if self.config.resample and isinstance(self.drawn, SampledGraph):
            self.neighbourhoods = self.drawn.of_epoch(index)
            if self.plan.full_batch:
                self.full = self._full_batch()

    def mini_batch(self, targets: Nodes) -> Batch:
        """Vectorise the merged k-hop neighbourhood of ``targets``, pruned per layer (section 3.3.1)."""
        form = self.config.form if self.config.on("pruning") else "full"
        matrices, nodes = self.neighbourhoods.layers(targets, form)
        as_they_come = matrices[-1].csr.shape[0] == len(targets) and bool((targets[1:] > targets[:-1]).all())
        rows = None if as_they_come else torch.from_numpy(np.unique(targets, return_inverse=True)[1])
        features = self.features if nodes is None else self.features.index_select(0, torch.from_numpy(nodes))
        return Batch(matrices, features, targets, rows)

    @property
    def overlaps(self) -> bool:
        """Whether the pipeline runs."""
        return bool(self.config.on("pipeline")) and self.training.threads >= self.config.pipeline_from

    def facts(self) -> dict[str, Any]:
        """See ``TorchTrainer``; also whether the pipeline runs."""
        return super().facts() | {"overlaps": not self.plan.full_batch and self.overlaps}

    def target_batch(self, targets: Nodes) -> Batch:
        """See ``TorchTrainer``; drawn as in the first epoch."""
        self._draw(0)
        return self.mini_batch(targets)

    def batches(self, index: int, clock: Clock) -> Iterator[Batch]:
        """Vectorise the next batch while the current one is computed, where the pipeline is on and has a thread."""
        self._draw(index)
        if self.plan.full_batch:
            yield self.full
        elif self.overlaps:
            yield from overlapped(map(self.mini_batch, self._ascending_targets(index)), clock)
        else:
            for targets in self._ascending_targets(index):
                with clock.phase("vectorize"):
                    batch = self.mini_batch(targets)
                yield batch

    def _ascending_targets(self, index: int) -> Iterator[Nodes]:
        """Each batch's targets in the order of its rows, so that neither logits nor gradients are permuted."""
        return map(np.sort, self.plan.targets(index))


class AglInferrer(TorchInferrer):
    """Scores nodes by the full-graph forward pass of the same network."""

    trainer_class = AglTrainer
