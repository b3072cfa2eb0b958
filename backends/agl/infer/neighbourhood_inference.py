"""Inference from k-hop neighbourhoods, batch by batch: the baseline of GraphInfer (AGL, section 3.4).

Neighbourhoods of different batches overlap, and an embedding is computed again in each batch that needs it.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from backends.agl.infer.job import InferenceJob, Nodes
from backends.agl.infer.map_stage import inverse_sqrt_degrees
from backends.agl.vectorize import matrices
from backends.base.layered import LayeredNetwork
from backends.base.sparse_rows import Rows, input_rows, tensor
from backends.kernels import khop
from backends.model import TrainingSpec

Floats = NDArray[np.float32]


@dataclass
class NeighbourhoodInference:
    """Scores batches of ``size`` targets, each from the merged neighbourhood of its targets, pruned per layer."""

    job: InferenceJob
    size: int
    computed: int = 0
    scale: NDArray[np.float64] | None = None
    network: LayeredNetwork = field(init=False)
    features: Rows = field(init=False)

    def __post_init__(self) -> None:
        assert self.job.graph.features is not None
        self.features = input_rows(self.job.graph.features)
        self.network = LayeredNetwork(self.job.spec, TrainingSpec(), sparse_input=self.job.sparse_input)
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
        fanouts = job.spec.fanouts or [None] * layers
        weight = job.graph.edge_weights
        neighbourhood = khop(job.graph.csr, targets, fanouts, job.seed, "node", job.sampler, weight, job.replacement)
        scale = None if self.scale is None else self.scale[neighbourhood.nodes]
        structure = matrices(neighbourhood, job.spec.name, layers, "tight", scale, weight)
        self.computed += sum(matrix.csr.shape[0] for matrix in structure)
        with torch.inference_mode():
            features = self.features.index_select(0, tensor(neighbourhood.nodes))
            logits = self.network(features, structure).numpy()
        scores: Floats = logits[np.searchsorted(neighbourhood.targets, targets)]
        return scores

    def facts(self) -> dict[str, Any]:
        """Computed embeddings, where a node in several batches counts several times; and the batch size."""
        return {"embeddings": self.computed, "batch": self.size}
