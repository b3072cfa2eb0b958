"""GraphTrainer on an in-memory graph: k-hop batches, vectorised, pruned, overlapped with compute."""

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import torch
from torch import Tensor

from backends.agl.pipeline import overlapped
from backends.contract import Clock, Nodes
from backends.inferring import TorchInferrer
from backends.kernels import khop, layer_blocks
from backends.layered import LayeredNetwork, LayeredTrainer, LayerMatrix, float_tensor
from backends.model import ModelSpec, TrainingSpec
from backends.training import Batch, Network, targets_of
from datasets.adjacency import adjacency_of


class AglTrainer(LayeredTrainer):
    """Trains target batches on the k-hop neighbourhoods of their targets, merged."""

    def network(self, spec: ModelSpec, training: TrainingSpec) -> Network:
        """See ``TorchTrainer``."""
        return LayeredNetwork(spec, training, self.config.on("partition"))

    def prepare_structure(self) -> None:
        """Normalise on the whole graph; a full batch is one neighbourhood, vectorised once."""
        self.adjacency = adjacency_of(self.graph, self.spec.name)
        self.weight = float_tensor(self.adjacency.weight)
        self.features = torch.from_numpy(np.array(self.graph.features, dtype=np.float32))
        if self.plan.full_batch:
            self.full = replace(self.mini_batch(self.plan.nodes), labels=targets_of(self.graph, self.plan.nodes))

    def mini_batch(self, targets: Nodes) -> Batch:
        """Vectorise the merged k-hop neighbourhood of ``targets``, pruned per layer (section 3.3.1)."""
        neighbourhood = khop(self.adjacency.csr, targets, [None] * self.spec.layers)
        form = self.config.form if self.config.on("pruning") else "full"
        blocks = layer_blocks(neighbourhood, self.spec.layers, form)
        matrices = [LayerMatrix(block.csr, self._weight_at(block.positions)) for block in blocks]
        places = np.searchsorted(neighbourhood.nodes[: len(targets)], targets)
        as_they_come = blocks[-1].csr.shape[0] == len(targets) and np.array_equal(places, np.arange(len(targets)))
        rows = None if as_they_come else torch.from_numpy(places)
        return Batch(matrices, self.features[torch.from_numpy(neighbourhood.nodes)], targets, rows)

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
