"""GraphTrainer on an in-memory graph: k-hop batches, vectorised, pruned, overlapped with compute."""

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import torch
from torch import Tensor

from backends.agl.flat.flattener import strategy_of
from backends.agl.pipeline import overlapped
from backends.agl.sampled import SampledGraph
from backends.contract import Clock, Nodes
from backends.inferring import TorchInferrer
from backends.kernels import khop, layer_blocks
from backends.layered import LayeredNetwork, LayeredTrainer, LayerMatrix, float_tensor
from backends.model import ModelSpec, TrainingSpec
from backends.training import Batch, Network, targets_of
from datasets.adjacency import adjacency_of


class AglTrainer(LayeredTrainer):
    """Trains target batches on the k-hop neighbourhoods of their targets, merged; whole ones, or samples of them.

    A node's sample is the same in every batch and epoch, as it is in GraphFeatures, which are made once.
    """

    draws_fanouts = True
    sampled: SampledGraph | None = None

    def network(self, spec: ModelSpec, training: TrainingSpec) -> Network:
        """See ``TorchTrainer``."""
        return LayeredNetwork(spec, training, self.config.on("partition"))

    def prepare_structure(self) -> None:
        """Normalise on the whole graph; a full batch is one neighbourhood, vectorised once."""
        if self.spec.fanouts or self.config.sampler or self.config.filter:
            strategy = strategy_of(self.config, self.spec, self.training.seed)
            self.sampled = SampledGraph(self.graph, self.spec.name, strategy, self.config.filter)
        else:
            self.adjacency = adjacency_of(self.graph, self.spec.name)
            self.weight = float_tensor(self.adjacency.weight)
        self.features = torch.from_numpy(np.array(self.graph.features, dtype=np.float32))
        if self.plan.full_batch:
            self.full = replace(self.mini_batch(self.plan.nodes), labels=targets_of(self.graph, self.plan.nodes))

    def mini_batch(self, targets: Nodes) -> Batch:
        """Vectorise the merged k-hop neighbourhood of ``targets``, pruned per layer (section 3.3.1)."""
        form = self.config.form if self.config.on("pruning") else "full"
        layers = self._whole_layers if self.sampled is None else self.sampled.layers
        matrices, nodes = layers(targets, form)
        places = np.unique(targets, return_inverse=True)[1]
        as_they_come = matrices[-1].csr.shape[0] == len(targets) and np.array_equal(places, np.arange(len(targets)))
        rows = None if as_they_come else torch.from_numpy(places)
        return Batch(matrices, self.features[torch.from_numpy(nodes)], targets, rows)

    def _whole_layers(self, targets: Nodes, form: str) -> tuple[list[LayerMatrix], Nodes]:
        neighbourhood = khop(self.adjacency.csr, targets, [None] * self.spec.layers)
        blocks = layer_blocks(neighbourhood, self.spec.layers, form)
        return [LayerMatrix(block.csr, self._weight_at(block.positions)) for block in blocks], neighbourhood.nodes

    def _weight_at(self, positions: Nodes) -> Tensor | None:
        return None if self.weight is None else self.weight[torch.from_numpy(positions)]

    def target_batch(self, targets: Nodes) -> Batch:
        """See ``TorchTrainer``."""
        return self.mini_batch(targets)

    def batches(self, index: int, clock: Clock) -> Iterator[Batch]:
        """Vectorise the next batch while the current one is computed, where the pipeline is on."""
        if self.plan.full_batch:
            yield self.full
        elif self.config.on("pipeline"):
            yield from overlapped(map(self.mini_batch, self.plan.targets(index)), clock)
        else:
            yield from super().batches(index, clock)


class AglInferrer(TorchInferrer):
    """Scores nodes by the full-graph forward pass of the same network."""

    trainer_class = AglTrainer
