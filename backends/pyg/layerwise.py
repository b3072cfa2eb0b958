"""Layer-wise inference with PyG's convolutions: every layer over all nodes, in batches of one-hop blocks.

PyG's examples take the blocks from NeighborLoader in each pass; here they are cut from the graph's matrix, once and
before the clock.
"""

from collections.abc import Iterator
from contextlib import AbstractContextManager
from typing import Any

import numpy as np
import torch

from backends.base.inferrer import Block, LayerwiseInferrer, run_of
from backends.contract import Inferrer, Nodes
from backends.kernels import khop
from backends.pyg.backend import PygInferrer, PygTrainer
from backends.pyg.config import PygConfig
from backends.pyg.network import Structure, hop_of
from datasets.adjacency import Adjacency, adjacency_of


def inferrer(config: PygConfig) -> Inferrer:
    """The inferrer that ``backend.infer`` names."""
    return PygLayerwise(config) if config.infer == "layerwise" else PygInferrer(config)


class PygLayerwise(LayerwiseInferrer):
    """Blocks of the matrix of the whole graph."""

    trainer_class = PygTrainer
    trainer: PygTrainer

    def cut(self, batches: list[Nodes]) -> None:
        """See ``LayerwiseInferrer``."""
        adjacency = adjacency_of(self.trainer.graph, self.trainer.spec.name)
        self.held = [self._block(adjacency, rows) for rows in batches]

    def _block(self, adjacency: Adjacency, rows: Nodes) -> Block:
        spec, found = self.trainer.spec, khop(adjacency.csr, rows, [None])
        weight = None if adjacency.weight is None else torch.from_numpy(np.array(adjacency.weight[found.positions]))
        hop = hop_of(found.csr, weight, spec.name, self.trainer.variant)
        return Block(run_of(rows), torch.from_numpy(found.nodes), Structure([hop] * spec.layers))

    def blocks(self) -> Iterator[Block]:
        """See ``LayerwiseInferrer``."""
        return iter(self.held)

    def without_gradients(self) -> AbstractContextManager[Any]:
        """See ``LayerwiseInferrer``; slices of an EdgeIndex do not exist in inference mode."""
        return torch.no_grad()

    def facts(self) -> dict[str, Any]:
        """See ``LayerwiseInferrer``; also the form that ran."""
        return super().facts() | {"variant": self.trainer.variant}
