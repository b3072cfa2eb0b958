"""Layer-wise inference as DGL's examples do it: every layer over all nodes, in batches of one-hop blocks.

The timed region holds sampling, the gather of each block's inputs, the layer, and the write of its outputs.
"""

from typing import Any

import numpy as np
import torch
from torch import Tensor

from backends.batches import BatchPlan
from backends.contract import Clock, Floats, Inferrer, Nodes
from backends.dgl.backend import DglInferrer, DglTrainer
from backends.dgl.config import DglConfig
from backends.dgl.network import Structure
from backends.dgl.sampling import NeighbourSampler
from backends.inferring import SAMPLED
from backends.model import ModelSpec, State, TrainingSpec
from backends.training import refuse_fanouts, refuse_weights
from datasets.graph import Graph

BATCH = 1024


def inferrer(config: DglConfig) -> Inferrer:
    """The inferrer that ``backend.infer`` names."""
    return DglLayerwise(config) if config.infer == "layerwise" else DglInferrer(config)


class DglLayerwise:
    """Each layer over batches of ``training.batch_size`` consecutive nodes, with all their in-edges."""

    def __init__(self, config: DglConfig) -> None:
        self.trainer = DglTrainer(config)

    def prepare(
        self, graph: Graph, spec: ModelSpec, training: TrainingSpec, state: State, plan: BatchPlan, clock: Clock
    ) -> None:
        """See ``backends.contract.Inferrer``."""
        refuse_weights(graph, spec)
        refuse_fanouts(spec, self.trainer.config.name, SAMPLED)
        torch.set_num_threads(training.threads)
        trainer, every = self.trainer, np.arange(graph.nodes)
        trainer.graph, trainer.spec, trainer.training = graph, spec, training
        self.nodes, self.size = plan.nodes, plan.size or BATCH
        self.batches: list[Nodes] = np.split(every, range(self.size, graph.nodes, self.size))
        with clock.phase("structure"):
            trainer.whole, trainer.sampler = trainer.whole_graph(graph), NeighbourSampler([-1])
            self.features = torch.from_numpy(np.array(graph.features, dtype=np.float32))
        with clock.phase("model"):
            self.model = trainer.network(spec, training)
            self.model.load(state)
            self.model.eval()

    def infer(self, clock: Clock) -> Floats:
        """See ``backends.contract.Inferrer``."""
        hidden = self.features
        with torch.inference_mode(), clock.phase("forward"):
            for layer in range(self.model.spec.layers):
                hidden = self._layer(layer, hidden)
            scores: Floats = self.model.logits_of(hidden[torch.from_numpy(self.nodes)]).numpy()
        return scores

    def _layer(self, layer: int, hidden: Tensor) -> Tensor:
        spec = self.model.spec
        width = spec.width_out(layer) * (1 if spec.is_last(layer) else spec.heads_of(layer))
        made = torch.empty((len(hidden), width))
        for inputs, outputs, blocks in self.trainer.sampled(self.batches):
            structure = Structure([self.trainer.whole.hop(blocks[0])] * spec.layers)
            made[outputs.long()] = self.model.layer(layer, hidden.index_select(0, inputs), structure)
        return made

    def facts(self) -> dict[str, Any]:
        """Embeddings made, and in how many nodes a batch."""
        return {"embeddings": self.model.spec.layers * len(self.features), "batch": self.size}

    def close(self) -> None:
        """See ``backends.contract.Inferrer``."""
        self.trainer.close()
