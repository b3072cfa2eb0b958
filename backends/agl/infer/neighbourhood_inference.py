"""Inference from k-hop neighbourhoods, batch by batch: the baseline of GraphInfer (AGL, section 3.4).

Neighbourhoods of different batches overlap, and an embedding is computed again in each batch that needs it. They are
searched in a graph, or read from GraphFeatures. Samples may differ between targets, which GraphInfer cannot have.
"""

from collections.abc import Iterator

import numpy as np
import torch
from numpy.typing import NDArray

from backends.agl.flat.reader import GraphFeatureReader, sampling_of
from backends.agl.infer.job import InferenceJob, Nodes
from backends.agl.networks import builder_of, network_of
from backends.agl.sampled_graph import SampledGraph
from backends.agl.vectorize import matrices_of_records
from backends.base.layered import LayerMatrix
from backends.base.network import Network
from backends.base.sparse_rows import Rows, input_rows, tensor
from backends.model import ModelSpec, State, TrainingSpec

Floats = NDArray[np.float32]


class NeighbourhoodInference:
    """Scores batches of ``size`` targets of a graph, each from the merged neighbourhood of its targets, pruned."""

    def __init__(self, job: InferenceJob, size: int) -> None:
        assert job.graph.features is not None
        self.job, self.size, self.computed = job, size, 0
        self.features = input_rows(job.graph.features)
        self.sampled_graph = SampledGraph(job.graph, builder_of(job.spec), job.sampling, job.filtering)
        self.network = _network(job.spec, job.state, job.sparse_input)

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
        distinct, rows = np.unique(targets, return_inverse=True)
        structure, nodes = self.sampled_graph.layers(distinct, "tight")
        self.computed += sum(matrix.csr.shape[0] for matrix in structure)
        features = self.features if nodes is None else self.features.index_select(0, tensor(nodes))
        scores: Floats = _logits(self.network, features, structure)[rows]
        return scores

    def facts(self) -> dict[str, int]:
        """Computed embeddings, where a node in several batches counts several times; and the batch size."""
        return {"embeddings": self.computed, "batch": self.size}


class RecordInference:
    """Scores the targets of GraphFlat's shards, ``size`` records at a time, from their stored neighbourhoods alone."""

    def __init__(self, reader: GraphFeatureReader, spec: ModelSpec, state: State, size: int) -> None:
        self.reader, self.spec, self.size, self.computed = reader, spec, size, 0
        self.strategy, self.builder = sampling_of(reader), builder_of(spec)
        self.columns = bool(reader.manifest["weighted"]), reader.edge_width
        self.network = _network(spec, state, bool(reader.manifest.get("sparse")))

    def batches(self) -> Iterator[tuple[Nodes, Floats]]:
        """Yield ids of targets, and their logits, in the order of the records."""
        for records in self.reader.encoded_batches(self.size):
            merged, features, structure = matrices_of_records(
                records, self.builder, self.strategy, "tight", *self.columns
            )
            self.computed += sum(matrix.csr.shape[0] for matrix in structure)
            logits = _logits(self.network, features, structure)
            yield merged.neighbourhood.nodes[merged.roots].astype(np.int64), logits[merged.roots]


def _network(spec: ModelSpec, state: State, sparse_input: bool) -> Network:
    network = network_of(spec, TrainingSpec(), sparse_input=sparse_input)
    network.load(state)
    network.eval()
    return network


def _logits(network: Network, features: Rows, structure: list[LayerMatrix]) -> Floats:
    with torch.inference_mode():
        logits: Floats = network(features, structure).numpy()
    return logits
