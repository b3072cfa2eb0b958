"""GraphInfer's MapReduce tasks (AGL, section 3.4): messages are pushed to the reducer of their destination.

Map runs once and lists which nodes of each partition the others read. The send task of a round returns one piece per
reducer, with each node's message once however many edges it has there. The arithmetic of a round is that of
``networks``. Each task returns a list of its results. Hubs are sampled in pieces, a range of in-edges each, merged
afterwards: any cut of a hub's in-edges gives the same sample, and ranges cost a piece its own edges alone.
"""

from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from backends.agl import networks
from backends.agl.flat.rounds import InEdges, sample_parts
from backends.agl.flat.source import Source
from backends.agl.infer.job import ROWS_AT_ONCE, HubSamples, InferenceJob, Nodes, RowFile
from backends.agl.infer.map_stage import (
    compacted,
    embeddings_name,
    layer_matrix,
    needed_rows,
    partition_matrix,
    scatter_rows,
)
from backends.agl.networks import builder_of, model_slices
from backends.agl.vectorize import NodeValues
from backends.base.layered import LayerMatrix
from backends.kernels.samplers import SAMPLERS
from backends.model import ModelSpec, State
from backends.places import mirrored
from datasets.csr import Csr
from datasets.features import Features, SparseFeatures

Floats = NDArray[np.float32]


@dataclass(frozen=True)
class HubPiece:
    """The in-edges of one hub at places ``first`` to below ``last`` of the table of edges."""

    node: int
    first: int
    last: int


def hub_pieces(job: InferenceJob, threshold: int) -> list[HubPiece]:
    """Pieces of up to ``threshold`` in-edges of every node with more; none where sampling does not read a whole row."""
    sampling = job.sampling
    if threshold < 1 or sampling.replacement or None in sampling.fanouts or SAMPLERS[sampling.method].by_place:
        return []
    indptr = job.edges.csr.indptr
    hubs = _hubs(indptr, threshold)
    rows = zip(hubs.tolist(), indptr[hubs].tolist(), indptr[hubs + 1].tolist(), strict=True)
    return [
        HubPiece(node, first, min(first + threshold, end))
        for node, start, end in rows
        for first in range(start, end, threshold)
    ]


def _hubs(indptr: NDArray[np.integer], threshold: int) -> Nodes:
    """Nodes of more than ``threshold`` in-edges, looked for in blocks of rows."""
    blocks = (indptr[first : first + ROWS_AT_ONCE + 1] for first in range(0, len(indptr) - 1, ROWS_AT_ONCE))
    hubs = [number * ROWS_AT_ONCE + np.flatnonzero(np.diff(block) > threshold) for number, block in enumerate(blocks)]
    return np.concatenate([np.empty(0, dtype=np.int64), *hubs])


def sample_piece(job: InferenceJob, piece: HubPiece) -> Nodes:
    """Sample the edges of a piece by the largest fanout; returns their places in the table of edges."""
    places = np.arange(piece.first, piece.last)
    return _sample_places(job, np.zeros(len(places), dtype=np.int64), places, max(_fanouts(job)))


def merge_samples(job: InferenceJob, pieces: list[HubPiece], samples: list[Nodes]) -> HubSamples:
    """Merge the samples of each hub's pieces into its sample, for every fanout (inverted indexing)."""
    owners = np.repeat([piece.node for piece in pieces], [len(sample) for sample in samples])
    nodes, counts = np.unique(owners, return_counts=True)
    places = np.concatenate(samples)
    sampled = {fanout: _sample_places(job, owners, places, fanout) for fanout in sorted(set(_fanouts(job)))}
    ends = {fanout: np.cumsum(np.minimum(counts, fanout))[:-1] for fanout in sampled}
    return HubSamples(nodes, {fanout: np.split(edges, ends[fanout]) for fanout, edges in sampled.items()})


def _fanouts(job: InferenceJob) -> list[int]:
    return [fanout for fanout in job.sampling.fanouts if fanout is not None]


def _sample_places(job: InferenceJob, owners: Nodes, places: Nodes, fanout: int) -> Nodes:
    """Sample the edges at ``places``, whose destinations are ``owners``, by a fanout; sorted by destination."""
    table, ids = job.edges, job.edges.csr.edge_ids
    weight = None if table.weight is None else np.asarray(table.weight[places])
    chosen = places if ids is None else np.asarray(ids[places])
    edges = InEdges(owners, np.asarray(table.csr.indices[places]), chosen, places, weight)
    return places[sample_parts(edges, fanout, job.sampling)]


@dataclass(frozen=True, eq=False)
class InferenceTaskSetup:
    """Inputs common to all tasks: the job, its source, a folder or URL, and a folder to save rounds in."""

    source: Path | str
    spec: ModelSpec
    state: State
    options: dict[str, Any]
    parts: list[tuple[int, int]]
    computed: dict[str, Any] = field(default_factory=dict)  # cached properties of the job, by name
    work: Path | None = None

    def job(self) -> InferenceJob:
        """The job with its graph and edges memory-mapped."""
        source = _open(self.source)
        values = NodeValues.of(source.graph, builder_of(self.spec), source.weighted_degrees)
        options = {"table": source.table, "node_values": values} | self.options
        job = InferenceJob(source.graph, self.spec, self.state, **options)
        vars(job).update(self.computed)
        return job

    def slice(self, layer: int) -> Any:
        """The model's slice of one layer."""
        torch.set_num_threads(1)
        return model_slices(self.spec, self.state, isinstance(_open(self.source).graph.features, SparseFeatures))[layer]


@cache
def _open(place: Path | str) -> Source:
    return Source.open(mirrored(str(place)))


@dataclass(frozen=True, eq=False)
class PartitionMatrix:
    """A layer's matrix of one partition: its rows, and the ascending source nodes that its columns stand for."""

    rows: Nodes
    sources: Nodes
    indptr: Nodes
    columns: Nodes
    weight: Floats | None
    positions: Nodes | None = None

    def matrix(self, setup: InferenceTaskSetup) -> LayerMatrix:
        """The matrix for the kernels, [rows, sources]."""
        csr = Csr(self.indptr, self.columns, (len(self.rows), len(self.sources)))
        return layer_matrix(setup.job(), csr, self.weight, self.positions, self.rows, self.sources)


def sample_hub(setup: InferenceTaskSetup, piece: HubPiece) -> list[Any]:
    """Map of hubs: sample one piece of a hub's in-edges."""
    return [sample_piece(setup.job(), piece)]


def map_partition(setup: InferenceTaskSetup, layer: int, index: int) -> list[Any]:
    """Map: return the matrix of a partition, then for every partition those of its nodes that this one reads."""
    job, (first, last) = setup.job(), setup.parts[index]
    csr, weight, edges = partition_matrix(job, layer, first, last)
    rows = needed_rows(job.needed[layer + 1], first, last)
    if len(rows) < last - first:
        csr, positions = csr.rows(rows - first)
        weight, edges = (None if array is None else array[positions] for array in (weight, edges))
    csr, sources = compacted(csr, rows)
    cuts = np.searchsorted(sources, [start for start, _ in setup.parts[1:]])
    return [PartitionMatrix(rows, sources, csr.indptr, csr.indices, weight, edges), *np.split(sources, cuts)]


def send_messages(
    setup: InferenceTaskSetup, layer: int, index: int, embeddings: Features | None, *sources: Nodes
) -> list[Any]:
    """Return a piece per reducer: the messages that its in-edges read; the piece for itself also has the kept ones.

    Pieces of a partition without rows are empty: a reducer with rows has its own piece, which names all messages.
    """
    job, (first, last) = setup.job(), setup.parts[index]
    rows = needed_rows(job.needed[layer], first, last)
    if not len(rows):  # a user's layer is never asked for none
        return [{} for _ in sources]
    if embeddings is None:
        assert job.graph.features is not None
        embeddings = job.graph.features[rows]
    messages = networks.send(setup.slice(layer), layer, embeddings)
    sent = {name: value for name, value in messages.items() if name.startswith(networks.SENT)}
    pieces = [{name: value[np.searchsorted(rows, nodes)] for name, value in sent.items()} for nodes in sources]
    computed = needed_rows(job.needed[layer + 1], first, last)
    for name in messages.keys() - sent.keys():
        pieces[index][name] = messages[name][np.searchsorted(rows, computed)]
    return pieces


def receive_messages(
    setup: InferenceTaskSetup, layer: int, part: PartitionMatrix, *pieces: dict[str, Floats]
) -> list[Any]:
    """Return a partition's embeddings from the pieces of all partitions, in the order of the partitions."""
    if not len(part.rows):
        return [np.empty((0, networks.width_of(setup.spec, layer)), np.float32)]
    names = sorted({name for piece in pieces for name in piece})
    messages = {name: np.concatenate([piece[name] for piece in pieces if name in piece]) for name in names}
    return [networks.receive(setup.slice(layer), layer, part.matrix(setup), messages)]


def write_embeddings(setup: InferenceTaskSetup, layer: int, index: int, embeddings: Floats) -> list[Any]:
    """Write a partition's embeddings into the array of all nodes; returns their number."""
    assert setup.work is not None
    first, last = setup.parts[index]
    rows = needed_rows(setup.job().needed[layer + 1], first, last)
    RowFile(setup.work / f"{embeddings_name(layer)}.npy").put(first, scatter_rows(embeddings, rows, first, last))
    return [len(rows)]


def read_embeddings(setup: InferenceTaskSetup, layer: int, index: int) -> list[Any]:
    """Return a partition's embeddings that an earlier process wrote."""
    assert setup.work is not None
    rows = needed_rows(setup.job().needed[layer + 1], *setup.parts[index])
    return [np.load(setup.work / f"{embeddings_name(layer)}.npy", mmap_mode="r")[rows]]


def score_targets(setup: InferenceTaskSetup, index: int, targets: Nodes | None, embeddings: Floats) -> list[Any]:
    """Return the logits of the targets of a partition, ``None`` for all of its nodes."""
    if targets is not None:
        if not len(targets):
            return [np.empty((0, setup.spec.classes), np.float32)]
        rows = needed_rows(setup.job().needed[-1], *setup.parts[index])
        embeddings = embeddings[np.searchsorted(rows, targets)]
    return [networks.score(setup.slice(setup.spec.layers), embeddings)]
