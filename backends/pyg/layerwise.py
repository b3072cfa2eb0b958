"""Layer-wise inference with PyG's convolutions: every layer over all nodes, in batches of one-hop blocks.

PyG's examples take the blocks from NeighborLoader in each pass; here they are cut from the graph's matrix, once and
before the clock. The timed region holds the gather of each block's inputs, the layer, and the write of its outputs.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from backends.batches import BatchPlan
from backends.contract import Clock, Floats, Inferrer, Nodes
from backends.inferring import SAMPLED
from backends.kernels import khop
from backends.model import ModelSpec, State, TrainingSpec
from backends.pyg.backend import PygInferrer, PygTrainer
from backends.pyg.config import PygConfig
from backends.pyg.network import Hop, Structure, hop_of
from backends.training import refuse_fanouts, refuse_weights
from datasets.adjacency import Adjacency, adjacency_of
from datasets.graph import Graph

BATCH = 1024


def inferrer(config: PygConfig) -> Inferrer:
    """The inferrer that ``backend.infer`` names."""
    return PygLayerwise(config) if config.infer == "layerwise" else PygInferrer(config)


@dataclass
class Block:
    """All in-edges of ``rows`` nodes; ``inputs`` are the nodes that they read, those rows first."""

    rows: slice
    inputs: Tensor
    hop: Hop


class PygLayerwise:
    """Each layer over batches of ``training.batch_size`` consecutive nodes, with all their in-edges."""

    def __init__(self, config: PygConfig) -> None:
        self.trainer = PygTrainer(config)

    def prepare(
        self, graph: Graph, spec: ModelSpec, training: TrainingSpec, state: State, plan: BatchPlan, clock: Clock
    ) -> None:
        """See ``backends.contract.Inferrer``."""
        refuse_weights(graph, spec)
        refuse_fanouts(spec, self.trainer.config.name, SAMPLED)
        torch.set_num_threads(training.threads)
        self.trainer.spec = spec
        self.nodes, self.size = plan.nodes, plan.size or BATCH
        with clock.phase("structure"):
            adjacency, every = adjacency_of(graph, spec.name), np.arange(graph.nodes)
            self.blocks = [self._block(adjacency, rows) for rows in np.split(every, every[self.size :: self.size])]
            self.features = torch.from_numpy(np.array(graph.features, dtype=np.float32))
        with clock.phase("model"):
            self.model = self.trainer.network(spec, training)
            self.model.load(state)
            self.model.eval()

    def _block(self, adjacency: Adjacency, rows: Nodes) -> Block:
        held = khop(adjacency.csr, rows, [None])
        weight = None if adjacency.weight is None else torch.from_numpy(np.array(adjacency.weight[held.positions]))
        hop = hop_of(held.csr, weight, self.trainer.spec.name, self.trainer.variant)
        return Block(slice(int(rows[0]), int(rows[-1]) + 1), torch.from_numpy(held.nodes), hop)

    def infer(self, clock: Clock) -> Floats:
        """See ``backends.contract.Inferrer``; slices of an EdgeIndex do not exist in inference mode."""
        hidden = self.features
        with torch.no_grad(), clock.phase("forward"):
            for layer in range(self.model.spec.layers):
                hidden = self._layer(layer, hidden)
            scores: Floats = self.model.logits_of(hidden[torch.from_numpy(self.nodes)]).numpy()
        return scores

    def _layer(self, layer: int, hidden: Tensor) -> Tensor:
        spec = self.model.spec
        made = torch.empty((len(hidden), spec.width_out(layer) * (1 if spec.is_last(layer) else spec.heads_of(layer))))
        for block in self.blocks:
            structure = Structure([block.hop] * spec.layers)
            out = self.model.layer(layer, hidden.index_select(0, block.inputs), structure)
            made[block.rows] = out[: block.rows.stop - block.rows.start]
        return made

    def facts(self) -> dict[str, Any]:
        """Embeddings made, in how many nodes a batch, and the form that ran."""
        made = self.model.spec.layers * len(self.features)
        return {"embeddings": made, "batch": self.size, "variant": self.trainer.variant}

    def close(self) -> None:
        """See ``backends.contract.Inferrer``."""
        self.trainer.close()
