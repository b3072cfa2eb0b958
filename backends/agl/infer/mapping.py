"""The Map stage: the matrix of every layer, partition by partition, written once and read in each round."""

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from backends.agl.infer.job import Job, Mask
from backends.agl.infer.rounds import tensor
from backends.agl.infer.workspace import Workspace
from backends.agl.vectorize import inverse_sqrt
from backends.base.layered import LayerMatrix
from datasets.adjacency import SELF_LOOP_MODELS, insert_self_loops
from datasets.csr import Csr, index_dtype

Progress = Callable[[str, int, int], None]
Floats = NDArray[np.float64]


def folder_of(job: Job, layer: int) -> str:
    """Where a layer's matrix lies; layers of one fanout share it."""
    fanout = job.fanout(layer)
    return f"matrix-{'all' if fanout is None else fanout}"


def embeddings_of(layer: int) -> str:
    """Where the embeddings lie that a layer makes."""
    return f"embeddings-{layer + 1}"


def round_of(layer: int) -> str:
    """The step in which they are made."""
    return f"round-{layer + 1}"


def write_matrices(job: Job, space: Workspace, progress: Progress) -> None:
    """Map: write the matrix of each distinct fanout, of the rows that its first layer makes."""
    scale = inverse_sqrt_degrees(job) if job.spec.name == "gcn" else None
    for layer in range(job.spec.layers):
        name = folder_of(job, layer)
        if not space.finished(name):
            _write(job, layer, name, scale, space, progress)
            space.finish(name)


def inverse_sqrt_degrees(job: Job) -> Floats:
    """``D^-1/2`` with D the weighted in-degree of A + I, of the whole graph whatever is sampled (design: models)."""
    csr, weights = job.graph.csr, job.graph.edge_weights
    degree = np.empty(job.graph.nodes)
    for first, last in job.parts:
        start, end = int(csr.indptr[first]), int(csr.indptr[last])
        part = Csr(csr.indptr[first : last + 1] - csr.indptr[first], csr.indices[start:end], (last - first,) * 2)
        raw = None if weights is None else weights[start:end]
        degree[first:last] = 1.0 + np.bincount(part.destinations, weights=raw, minlength=last - first)
    return inverse_sqrt(degree)


def rows_of(mask: Mask | None, first: int, last: int) -> NDArray[np.int64]:
    """Nodes of a partition that a mask keeps."""
    return np.arange(first, last) if mask is None else first + np.flatnonzero(mask[first:last])


def spread(values: NDArray[np.float32], rows: NDArray[np.int64], first: int, last: int) -> NDArray[np.float32]:
    """Values of ascending ``rows`` as those of all nodes of a partition; zeros where nothing is needed."""
    if len(rows) == last - first:
        return values
    whole = np.zeros((last - first, *values.shape[1:]), values.dtype)
    whole[rows - first] = values
    return whole


def partition_matrix(job: Job, layer: int, first: int, last: int, scale: Floats | None) -> tuple[Csr, Any]:
    """A layer's rows of one partition, with self loops and gcn's weights; nodes that nothing needs have no edges."""
    kept = rows_of(job.needed[layer + 1], first, last)
    chosen, positions = job.in_edges(kept, layer)
    degrees = np.zeros(last - first, dtype=np.int64)
    degrees[kept - first] = chosen.in_degrees
    csr = Csr(np.concatenate(([0], np.cumsum(degrees))), chosen.indices, (last - first, job.graph.nodes))
    if job.spec.name not in SELF_LOOP_MODELS:
        return csr, None
    csr, old = insert_self_loops(csr, first)
    if scale is None:
        return csr, None
    ones = np.ones(csr.nnz)
    if job.graph.edge_weights is not None and len(positions):
        ones = np.where(old >= 0, job.graph.edge_weights[positions[np.maximum(old, 0)]], 1.0)
    return csr, (scale[csr.destinations + first] * ones * scale[csr.indices]).astype(np.float32)


def _write(job: Job, layer: int, name: str, scale: Floats | None, space: Workspace, progress: Progress) -> None:
    counts = np.zeros(job.graph.nodes, dtype=np.int64)
    for first, last in job.parts:
        rows = rows_of(job.needed[layer + 1], first, last)
        counts[rows] = job.degrees(rows, layer)
    counts += job.spec.name in SELF_LOOP_MODELS
    nnz, nodes = int(counts.sum()), job.graph.nodes
    kind = index_dtype(max(nnz, nodes))
    indptr = space.create(f"{name}/indptr", (nodes + 1,), kind)
    indptr[1:] = np.cumsum(counts)
    indices = space.create(f"{name}/indices", (nnz,), kind)
    weight = None if scale is None else space.create(f"{name}/weight", (nnz,), np.float32)
    for done, (first, last) in enumerate(job.parts):
        csr, values = partition_matrix(job, layer, first, last, scale)
        start, end = int(indptr[first]), int(indptr[last])
        indices[start:end] = csr.indices
        space.release(indices[start:end])
        if weight is not None:
            weight[start:end] = values
            space.release(weight[start:end])
        progress(f"map {name}", done + 1, len(job.parts))


class Matrices:
    """The matrices that Map wrote, read by partition; a whole partition's stays mapped, its row starts in memory."""

    def __init__(self, job: Job, space: Workspace, layer: int) -> None:
        name = folder_of(job, layer)
        self.nodes, self.space = job.graph.nodes, space
        self.whole: dict[int, LayerMatrix] = {}
        self.indptr, self.indices = space.open(f"{name}/indptr"), space.open(f"{name}/indices")
        self.weight = space.open(f"{name}/weight") if "weight" in space.names(name) else None

    def read(self, first: int, rows: NDArray[np.int64], last: int) -> LayerMatrix:
        """The matrix [rows, all nodes] of a partition's rows, viewed where those are all."""
        if len(rows) == last - first and first in self.whole:
            return self.whole[first]
        start, end = int(self.indptr[first]), int(self.indptr[last])
        indptr = np.asarray(self.indptr[first : last + 1]) - self.indptr[first]
        csr = Csr(indptr, np.asarray(self.indices[start:end]), (last - first, self.nodes))
        weight = None if self.weight is None else np.asarray(self.weight[start:end])
        if len(rows) < last - first:
            csr, kept = csr.rows(rows - first)
            weight = None if weight is None else weight[kept]
        matrix = LayerMatrix(csr, None if weight is None else tensor(weight))
        if len(rows) == last - first and not self.space.unmap:
            self.whole[first] = matrix
        return matrix

    def release(self, first: int, last: int) -> None:
        """Unmap what a partition read."""
        start, end = int(self.indptr[first]), int(self.indptr[last])
        self.space.release(self.indices[start:end])
        if self.weight is not None:
            self.space.release(self.weight[start:end])
