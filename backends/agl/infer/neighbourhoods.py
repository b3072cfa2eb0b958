"""Inference from the k-hop neighbourhoods of targets, batch by batch: what GraphInfer replaced (AGL, section 3.4).

Neighbourhoods of different batches overlap, and an embedding is made anew in each batch that needs it.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from backends.agl.infer.job import Job, Nodes
from backends.agl.infer.mapping import inverse_sqrt_degrees
from backends.agl.infer.rounds import tensor
from backends.kernels import khop, layer_blocks
from backends.layered import LayeredNetwork, LayerMatrix
from backends.model import TrainingSpec
from datasets.adjacency import SELF_LOOP_MODELS, insert_self_loops
from datasets.csr import Csr

Floats = NDArray[np.float32]


@dataclass
class NeighbourhoodInference:
    """Scores batches of ``size`` targets, each from the union of its targets' neighbourhoods, pruned per layer."""

    job: Job
    size: int
    computed: int = 0
    scale: NDArray[np.float64] | None = None
    network: LayeredNetwork = field(init=False)

    def __post_init__(self) -> None:
        self.network = LayeredNetwork(self.job.spec, TrainingSpec())
        self.network.load(self.job.state)
        self.network.eval()
        self.scale = inverse_sqrt_degrees(self.job) if self.job.spec.name == "gcn" else None

    def run(self) -> Floats:
        """Score the targets: logits [targets, classes]."""
        self.computed = 0
        targets = np.arange(self.job.graph.nodes) if self.job.targets is None else self.job.targets
        return np.concatenate(list(self.batches(targets)) or [np.empty((0, self.job.spec.classes), np.float32)])

    def batches(self, targets: Nodes) -> Iterator[Floats]:
        """Score the targets batch by batch."""
        for start in range(0, len(targets), self.size):
            yield self._scores(targets[start : start + self.size])

    def _scores(self, targets: Nodes) -> Floats:
        job, layers = self.job, self.job.spec.layers
        fanouts = [job.fanout(layer) for layer in range(layers)]
        weight = job.graph.edge_weights
        held = khop(job.graph.csr, targets, fanouts, job.seed, "node", job.sampler, weight, job.replace)
        blocks = layer_blocks(held, layers)
        self.computed += sum(block.csr.shape[0] for block in blocks)
        structure = [self._matrix(block.csr, block.positions, held.nodes) for block in blocks]
        assert job.graph.features is not None
        with torch.inference_mode():
            logits = self.network(tensor(np.asarray(job.graph.features[held.nodes])), structure).numpy()
        made: Floats = logits[np.searchsorted(held.targets, targets)]
        return made

    def _matrix(self, csr: Csr, positions: Nodes | None, nodes: Nodes) -> LayerMatrix:
        if self.job.spec.name not in SELF_LOOP_MODELS:
            return LayerMatrix(csr)
        looped, old = insert_self_loops(csr, 0)
        if self.scale is None:
            return LayerMatrix(looped)
        raw: Any = 1.0
        if self.job.graph.edge_weights is not None and csr.nnz:
            assert positions is not None
            raw = np.where(old >= 0, self.job.graph.edge_weights[positions[np.maximum(old, 0)]], 1.0)
        local = self.scale[nodes]
        weight = (local[looped.destinations] * raw * local[looped.indices]).astype(np.float32)
        return LayerMatrix(looped, tensor(weight))

    def facts(self) -> dict[str, Any]:
        """Embeddings made, those of one node in several batches each time."""
        return {"embeddings": self.computed, "batch": self.size}
