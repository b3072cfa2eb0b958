"""Layer-wise inference with PyG's convolutions: every layer over all nodes, in batches of one-hop blocks.

PyG's examples take the blocks from NeighborLoader in each pass; here they are cut from the graph's matrix once, before
the timed region.
"""

from collections.abc import Iterator
from contextlib import AbstractContextManager
from dataclasses import replace
from typing import Any

import numpy as np
import torch

from backends.base.inferrer import LayerwiseInferrer, NodeBlock, slice_of
from backends.contract import Inferrer, Nodes
from backends.kernels import khop
from backends.pyg.backend import PygInferrer, PygTrainer
from backends.pyg.config import PygConfig
from backends.pyg.network import PygStructure, hop_of
from datasets.adjacency import Adjacency, adjacency_of


def inferrer(config: PygConfig) -> Inferrer:
    """Build the inferrer of ``backend.infer``."""
    return PygLayerwise(config) if config.infer == "layerwise" else PygInferrer(config)


class PygLayerwise(LayerwiseInferrer):
    """One-hop blocks of the whole graph's matrix."""

    trainer_class = PygTrainer
    trainer: PygTrainer

    def cut(self, batches: list[Nodes]) -> None:
        """Cut the blocks, once for all passes."""
        adjacency = adjacency_of(self.trainer.graph, self.trainer.spec.name)
        self.cut_blocks = [self._block(adjacency, rows) for rows in batches]

    def _block(self, adjacency: Adjacency, rows: Nodes) -> NodeBlock:
        spec, neighbourhood = self.trainer.spec, khop(adjacency.csr, rows, [None])
        positions = neighbourhood.positions
        weight = None if adjacency.weight is None else torch.from_numpy(np.array(adjacency.weight[positions]))
        hop = hop_of(neighbourhood.csr, weight, spec.name, self.trainer.variant)
        hop = replace(hop, outputs=len(rows))
        return NodeBlock(slice_of(rows), torch.from_numpy(neighbourhood.nodes), PygStructure([hop] * spec.layers))

    def blocks(self) -> Iterator[NodeBlock]:
        """The blocks of all batches, in their order."""
        return iter(self.cut_blocks)

    def without_gradients(self) -> AbstractContextManager[Any]:
        """Gradients off; not inference mode, in which an EdgeIndex cannot be sliced."""
        return torch.no_grad()

    def facts(self) -> dict[str, Any]:
        """Embeddings and batch size, and the variant that ran."""
        return super().facts() | {"variant": self.trainer.variant}
