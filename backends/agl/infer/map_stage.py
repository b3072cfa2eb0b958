"""GraphInfer's Map stage (AGL, section 3.4): the matrix of every layer, written by partition and read in each round."""

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from backends.agl.flat.source import add_weights
from backends.agl.infer.job import InferenceJob, Mask, Workspace
from backends.agl.networks import builder_of
from backends.agl.user_model import UserModelSpec
from backends.agl.user_network import Edges
from backends.agl.vectorize import EdgeValues, NodeValues
from backends.base.layered import LayerMatrix
from backends.base.sparse_rows import tensor
from backends.progress import Progress
from datasets.adjacency import insert_self_loops
from datasets.csr import Csr, index_dtype


def matrix_name(job: InferenceJob, layer: int) -> str:
    """Folder of a layer's matrix; layers of one fanout share it."""
    fanout = job.fanout(layer)
    return f"matrix-{'all' if fanout is None else fanout}"


def embeddings_name(layer: int) -> str:
    """Name of the array of a layer's embeddings."""
    return f"embeddings-{layer + 1}"


def round_name(layer: int) -> str:
    """Name of the step that computes a layer's embeddings."""
    return f"round-{layer + 1}"


def distinct_layers(job: InferenceJob) -> list[int]:
    """The first layer of each distinct matrix."""
    names = [matrix_name(job, layer) for layer in range(job.spec.layers)]
    return [names.index(name) for name in dict.fromkeys(names)]


def write_node_values(job: InferenceJob, space: Workspace) -> NDArray[np.floating] | None:
    """Write what layers read of each node, a partition at a time; ``None`` where they read nothing.

    It is a file, as gcn reads the value of an edge's source in every partition: computing it each time takes longer.
    """
    name, graph, builder = "node_values", job.graph, builder_of(job.spec)
    if not builder.reads_degrees:
        return None
    if not space.finished(name):
        sums = None
        if graph.edge_weights is not None:
            sums = add_weights(graph, space.create("weighted_degrees", (graph.nodes,), np.float64))
        computed = NodeValues(builder, graph.csr.indptr, sums)
        values = space.create(name, (graph.nodes,), computed[np.empty(0, dtype=np.int64)].dtype)
        for first, last in job.parts:
            values[first:last] = computed[np.arange(first, last)]
            space.release(values[first:last])
        space.finish(name)
        space.drop("weighted_degrees")
    return space.open(name)


def write_matrices(job: InferenceJob, space: Workspace, progress: Progress) -> None:
    """Map: write the matrix of each distinct fanout, for the rows that its first layer computes."""
    for layer in range(job.spec.layers):
        name = matrix_name(job, layer)
        if not space.finished(name):
            _write(job, layer, name, space, progress)
            space.finish(name)


def needed_rows(mask: Mask | None, first: int, last: int) -> NDArray[np.int64]:
    """Nodes of a partition where a mask is true; all for no mask."""
    return np.arange(first, last) if mask is None else first + np.flatnonzero(mask[first:last])


def scatter_rows(values: NDArray[Any], rows: NDArray[np.int64], first: int, last: int) -> NDArray[Any]:
    """Scatter values of ascending ``rows`` to all nodes of a partition; zeros elsewhere."""
    if len(rows) == last - first:
        return values
    scattered = np.zeros((last - first, *values.shape[1:]), values.dtype)
    scattered[rows - first] = values
    return scattered


def partition_matrix(job: InferenceJob, layer: int, first: int, last: int) -> tuple[Csr, Any, Any]:
    """A layer's matrix of one partition with self loops and gcn's weights; nodes that are not needed have no edges.

    Also returns the edges' positions in the graph, -1 for a loop, where layers read values of edges in each round.
    """
    rows = needed_rows(job.needed[layer + 1], first, last)
    in_edges, positions = job.in_edges(rows, layer)
    degrees = np.zeros(last - first, dtype=np.int64)
    degrees[rows - first] = in_edges.in_degrees
    csr = Csr(np.concatenate(([0], np.cumsum(degrees))), in_edges.indices, (last - first, job.graph.nodes))
    if not job.spec.has_loops:
        return csr, None, positions if job.spec.reads_edges else None
    csr, old_positions = insert_self_loops(csr, first)
    if job.spec.name != "gcn":
        return csr, None, np.append(positions, -1)[old_positions] if job.spec.reads_edges else None
    weight = np.ones(csr.nnz)
    if job.graph.edge_weights is not None and len(positions):
        weight = np.where(old_positions >= 0, job.graph.edge_weights[positions[np.maximum(old_positions, 0)]], 1.0)
    scale = job.node_values
    return csr, (scale[csr.destinations + first] * weight * scale[csr.indices]).astype(np.float32), None


def _edge_counts(job: InferenceJob, layer: int) -> Iterator[NDArray[np.int64]]:
    """The number of edges of each node that a layer's matrix has, a partition at a time: counted twice, never kept."""
    for first, last in job.parts:
        rows = needed_rows(job.needed[layer + 1], first, last)
        yield scatter_rows(job.degrees(rows, layer), rows, first, last) + job.spec.has_loops


def _write(job: InferenceJob, layer: int, name: str, space: Workspace, progress: Progress) -> None:
    nnz, nodes = sum(int(counts.sum()) for counts in _edge_counts(job, layer)), job.graph.nodes
    dtype = index_dtype(max(nnz, nodes))
    indptr = space.create(f"{name}/indptr", (nodes + 1,), dtype)
    for (first, last), counts in zip(job.parts, _edge_counts(job, layer), strict=True):
        indptr[first + 1 : last + 1] = int(indptr[first]) + np.cumsum(counts)
    indices = space.create(f"{name}/indices", (nnz,), dtype)
    weight = space.create(f"{name}/weight", (nnz,), np.float32) if job.spec.name == "gcn" else None
    places = space.create(f"{name}/positions", (nnz,), np.int64) if job.spec.reads_edges else None
    for done, (first, last) in enumerate(job.parts):
        csr, values, positions = partition_matrix(job, layer, first, last)
        start, end = int(indptr[first]), int(indptr[last])
        for array, part in ((indices, csr.indices), (weight, values), (places, positions)):
            if array is not None:
                array[start:end] = part
                space.release(array[start:end])
        progress(f"map {name}", done + 1, len(job.parts))


def compacted(csr: Csr, rows: NDArray[np.int64]) -> tuple[Csr, NDArray[np.int64]]:
    """The matrix of some ``rows`` over the ascending nodes that its edges start at, and these nodes."""
    sources, columns = np.unique(csr.indices, return_inverse=True)
    if not len(sources):  # a layer reads one row or more
        sources = rows[:1]
    indptr = np.asarray(csr.indptr, dtype=np.int64)
    return Csr(indptr, columns, (len(rows), len(sources))), sources.astype(np.int64)


def layer_matrix(job: InferenceJob, csr: Csr, weight: Any, positions: Any, rows: Any, sources: Any) -> LayerMatrix:
    """The matrix that a slice receives along: of some ``rows``, from ``sources`` (``None``: from all nodes).

    A user's slice, and gat, read values of edges: those of the graph at ``positions``, and in-degrees of all nodes.
    """
    if positions is None:
        return LayerMatrix(csr, None if weight is None else tensor(weight))
    graph, reads, degrees = job.graph, job.spec.edge_columns, job.node_values
    weights = graph.edge_weights if "weight" in reads else None
    values = EdgeValues(None, weights, graph.edge_features if "features" in reads else None)
    features = values.features_of(positions)
    if not isinstance(job.spec, UserModelSpec):
        return LayerMatrix(csr, features=features)
    own, of_sources = (None if degrees is None else tensor(degrees[nodes]) for nodes in (rows, sources))
    return Edges(csr, values.weight_of(positions), features=features, degrees=own, source_degrees=of_sources)


class LayerMatrices:
    """A layer's matrix as Map wrote it, read by partition; complete partitions stay mapped between rounds.

    Those with values of edges are built again in each round: the values are copies, which would add up to the graph's.
    """

    def __init__(self, job: InferenceJob, space: Workspace, layer: int) -> None:
        name = matrix_name(job, layer)
        self.job, self.nodes, self.space = job, job.graph.nodes, space
        self.complete: dict[int, LayerMatrix] = {}
        self.indptr, self.indices = space.open(f"{name}/indptr"), space.open(f"{name}/indices")
        self.weight, self.positions = (
            space.open(f"{name}/{part}") if space.path(f"{name}/{part}").is_file() else None
            for part in ("weight", "positions")
        )

    def read(self, first: int, rows: NDArray[np.int64], last: int) -> tuple[LayerMatrix, NDArray[np.int64] | None]:
        """The matrix of some rows of a partition, and the nodes that are its columns, ``None`` for all.

        It is a view of the file for all rows; a user's layer gets only the columns that its edges start at.
        """
        if len(rows) == last - first and first in self.complete:
            return self.complete[first], None
        start, end = int(self.indptr[first]), int(self.indptr[last])
        indptr = np.asarray(self.indptr[first : last + 1]) - self.indptr[first]
        csr = Csr(indptr, np.asarray(self.indices[start:end]), (last - first, self.nodes))
        weight, positions = (
            None if array is None else np.asarray(array[start:end]) for array in (self.weight, self.positions)
        )
        if len(rows) < last - first:
            csr, places = csr.rows(rows - first)
            weight, positions = (None if array is None else array[places] for array in (weight, positions))
        sources = None
        if isinstance(self.job.spec, UserModelSpec):
            csr, sources = compacted(csr, rows)
        matrix = layer_matrix(self.job, csr, weight, positions, rows, sources)
        if len(rows) == last - first and positions is None and not self.space.unmap:
            self.complete[first] = matrix
        return matrix, sources

    def release(self, first: int, last: int) -> None:
        """Unmap the pages of a partition, with ``unmap``."""
        start, end = int(self.indptr[first]), int(self.indptr[last])
        self.space.release(self.indices[start:end])
        for array in (self.weight, self.positions):
            if array is not None:
                self.space.release(array[start:end])
