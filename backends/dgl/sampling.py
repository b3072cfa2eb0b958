"""Samplers of mini-batch blocks: DGL's own, and one that draws the definition's edges, for the parity gate."""

import os
from typing import Any

import torch

from backends.dgl.quiet import dgl
from backends.kernels import sample_neighbors
from datasets.csr import Csr


class NeighbourSampler(dgl.dataloading.NeighborSampler):  # type: ignore[misc]
    """DGL's sampler, corrected for int32 graphs; ``fanouts`` first layer first, -1 for all neighbours.

    DGL 1.1.3 stores the map from nodes to block positions as int64, but its fused kernel reads it in the graph's index
    type: with int32, entries of earlier batches survive, and blocks have wrong nodes from the second batch on.
    """

    g: Any
    mapping: dict[str, list[torch.Tensor]]

    def sample_blocks(self, g: Any, seed_nodes: Any, exclude_eids: Any = None) -> Any:
        """Sample blocks with a map of the graph's index type, under the name that DGL gives it in this process."""
        name = f"__mapping{os.getpid()}"
        if self.g is not g or name not in self.mapping:
            self.g, self.mapping = g, {name: [torch.full((g.num_nodes(),), -1, dtype=g.idtype)]}
        return super().sample_blocks(g, seed_nodes, exclude_eids)


class DefinedSampler(dgl.dataloading.BlockSampler):  # type: ignore[misc]
    """Blocks of the edges that the definition draws, which do not depend on the engine."""

    def __init__(self, csr: Csr, fanouts: tuple[int, ...], seed: int) -> None:
        super().__init__()
        self.csr, self.fanouts, self.seed = csr, fanouts, seed

    def sample_blocks(self, g: Any, seed_nodes: Any, exclude_eids: Any = None) -> Any:
        """Sample one block per layer; edges are numbered as in ``csr``."""
        reached, blocks = seed_nodes, []
        for fanout in reversed(self.fanouts):
            positions = sample_neighbors(self.csr, reached.numpy(), fanout, self.seed).positions
            frontier = dgl.edge_subgraph(g, torch.from_numpy(positions).to(g.idtype), relabel_nodes=False)
            block = dgl.to_block(frontier, reached)
            block.edata[dgl.EID] = frontier.edata[dgl.EID][block.edata[dgl.EID].long()]
            reached = block.srcdata[dgl.NID]
            blocks.insert(0, block)
        return reached, seed_nodes, blocks
