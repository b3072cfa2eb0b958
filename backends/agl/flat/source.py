"""Inputs of GraphFlat on disk: the mapped graph, the edges that pass the filter, degrees of the whole graph."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from backends.agl.flat.rounds import InEdgeTable
from backends.agl.flat.sampling_strategy import SamplingStrategy, StrategyError
from backends.kernels.samplers import SAMPLERS, summed
from backends.places import put_folder, put_text
from datasets.array_files import create_array
from datasets.csr import Csr, row_ranges
from datasets.features import SparseFeatures
from datasets.filters import EdgeFilter, edge_columns
from datasets.graph import Graph
from datasets.tables.out_of_core import GrowingArray

EDGES_AT_ONCE = 1 << 22
ARRAYS = ("weighted_degrees", "sampled_by", "sums", "indptr", "indices", "edge_ids", "positions")


class UnfitEdge(StrategyError):
    """An edge whose value sampling cannot use; ``edge`` is its id, a row of the edge table from 0."""

    def __init__(self, edge: int, reason: str, advice: str) -> None:
        super().__init__(f"edge {edge} {reason}: {advice}")
        self.edge, self.reason, self.advice = edge, reason, advice


@dataclass(frozen=True, eq=False)
class Source:
    """The whole ``graph``, and the ``table`` of edges to sample from: those that pass the filter.

    ``weighted_degrees`` float64 [nodes] are sums of in-edge weights in the whole graph, ``None`` without edge weights.
    """

    graph: Graph
    table: InEdgeTable
    weighted_degrees: NDArray[np.float64] | None = None

    @classmethod
    def build(cls, graph: Graph, strategy: SamplingStrategy, filtering: str | None, folder: Path) -> "Source":
        """Compute filtered edges, sampling column and degrees once for all targets, write them to ``folder``, open it.

        An unmapped graph is saved there too, so that other processes can map it. Memory does not grow with the graph,
        but for a filter by sparse features, which reads a column of them, and sums of weights, which read whole rows.
        Raises UnfitEdge for a value that weighted sampling cannot use.
        """
        folder.mkdir(parents=True, exist_ok=True)
        for name in ARRAYS:  # of a run that was killed here
            (folder / f"{name}.npy").unlink(missing_ok=True)
        graph_folder = _mapped_folder(graph)
        if graph_folder is None:
            graph_folder = folder / "graph"
            graph_folder.mkdir(exist_ok=True)
            graph.save(graph_folder)
        if graph.edge_weights is not None:
            add_weights(graph, create_array(folder / "weighted_degrees.npy", np.float64, (graph.nodes,)))
        if filtering:
            _write_filtered(graph, filtering, folder)
        if strategy.by is not None:
            _write_sampled_by(graph, strategy, folder)
            if strategy.method == "weighted":
                _write_sums(graph, folder)
        (folder / "source.json").write_text(json.dumps({"graph": str(graph_folder.resolve())}))
        return cls.open(folder)

    @staticmethod
    def publish(folder: Path, place: str) -> None:
        """Copy what ``build`` wrote, and the graph, to a place that all machines of a cluster reach."""
        facts = json.loads((folder / "source.json").read_text())
        put_folder(Path(facts["graph"]), f"{place}/graph")
        put_folder(folder, place, "*.npy")
        put_text(f"{place}/source.json", json.dumps({"graph": "graph"}))

    @classmethod
    def open(cls, folder: Path) -> "Source":
        """Memory-map the files that ``build`` wrote."""
        facts = json.loads((folder / "source.json").read_text())
        graph = Graph.load(folder / facts["graph"])  # absolute, or inside the folder
        degrees, weight, sums, indptr, indices, edge_ids, positions = (_mapped(folder, name) for name in ARRAYS)
        csr = graph.csr if indptr is None else Csr(indptr, indices, graph.csr.shape, edge_ids)
        return cls(graph, InEdgeTable(csr, weight, positions=positions, sums=sums), degrees)


def _mapped_folder(graph: Graph) -> Path | None:
    """Folder that ``Graph.load`` mapped the whole graph from; ``None`` where an array is in memory."""
    features = graph.features.values if isinstance(graph.features, SparseFeatures) else graph.features
    arrays = graph.csr.indptr, graph.csr.indices, features, graph.edge_weights, graph.edge_features
    files = [getattr(array, "filename", None) for array in arrays if array is not None and array.size]
    folders = {None if file is None else Path(file).parent for file in files}
    return folders.pop() if len(folders) == 1 else None


def _mapped(folder: Path, name: str) -> Any:
    """An array that ``build`` wrote, ``None`` where it did not."""
    path = folder / f"{name}.npy"
    return np.load(path, mmap_mode="r", allow_pickle=False) if path.is_file() else None


def add_weights(graph: Graph, sums: NDArray[np.float64]) -> NDArray[np.float64]:
    """Add the weights of in-edges to ``sums`` [nodes], zeros at first, a range of edges at a time; returns the sums."""
    assert graph.edge_weights is not None
    for start in range(0, graph.csr.nnz, EDGES_AT_ONCE):
        weights = graph.edge_weights[start : start + EDGES_AT_ONCE].astype(np.float64)
        nodes = graph.csr.edges(start, start + len(weights))[1]
        first = int(nodes[0])
        weights[0] += sums[first]  # of edges of the range before: a node's are added one after the other
        sums[first : int(nodes[-1]) + 1] = np.bincount(nodes - first, weights=weights)
    return sums


def _write_filtered(graph: Graph, filtering: str, folder: Path) -> None:
    """Write the edges that pass the filter: CSR, ids and positions in the whole graph."""
    csr, edge_filter = graph.csr, EdgeFilter(graph, filtering)
    columns = {name: GrowingArray(folder / f"{name}.npy") for name in ("positions", "indices", "edge_ids")}
    for start in range(0, max(csr.nnz, 1), EDGES_AT_ONCE):
        chosen = start + np.flatnonzero(edge_filter.mask(start, min(start + EDGES_AT_ONCE, csr.nnz)))
        columns["positions"].append(chosen)
        columns["indices"].append(csr.indices[chosen])
        columns["edge_ids"].append(chosen if csr.edge_ids is None else csr.edge_ids[chosen].astype(np.int64))
    for column in columns.values():
        column.close()
    positions = _mapped(folder, "positions")
    indptr = create_array(folder / "indptr.npy", csr.indptr.dtype, csr.indptr.shape)
    for start in range(0, len(indptr), EDGES_AT_ONCE):
        bounds = csr.indptr[start : start + EDGES_AT_ONCE].astype(positions.dtype)
        indptr[start : start + EDGES_AT_ONCE] = np.searchsorted(positions, bounds)


def _write_sampled_by(graph: Graph, strategy: SamplingStrategy, folder: Path) -> None:
    """Write the sampling column of the edges that pass the filter, negated for ``reverse``."""
    assert strategy.by is not None
    column, positions = edge_columns(graph, strategy.by), _mapped(folder, "positions")
    count = len(column) if positions is None else len(positions)
    out = create_array(folder / "sampled_by.npy", np.float32, (count,))
    for start in range(0, count, EDGES_AT_ONCE):
        span = slice(start, min(start + EDGES_AT_ONCE, count))
        chosen = np.arange(span.start, span.stop) if positions is None else positions[span]
        values = np.asarray(column[chosen], dtype=np.float32)
        _refuse_unfit(values, chosen if graph.csr.edge_ids is None else graph.csr.edge_ids[chosen], strategy)
        out[span] = -values if strategy.reverse else values
    out.flush()


def _write_sums(graph: Graph, folder: Path) -> None:
    """Write the sums of the sampling column of each row."""
    filtered, weight = _mapped(folder, "indptr"), _mapped(folder, "sampled_by")
    indptr = graph.csr.indptr if filtered is None else filtered
    out = create_array(folder / "sums.npy", np.float64, (len(weight),))
    for first, last in row_ranges(indptr, EDGES_AT_ONCE):
        span = slice(int(indptr[first]), int(indptr[last]))
        part = Csr(indptr[first : last + 1] - indptr[first], np.zeros(0, dtype=np.int32), (last - first, graph.nodes))
        out[span] = summed(part, np.asarray(weight[span])).sums
    out.flush()


def _refuse_unfit(values: NDArray[np.float32], ids: NDArray[np.integer], strategy: SamplingStrategy) -> None:
    positive = SAMPLERS[strategy.method].positive
    unfit = ~np.isfinite(values) | (values <= 0) if positive else np.isnan(values)
    if unfit.any():
        first = np.flatnonzero(unfit)[ids[unfit].argmin()]
        allowed = "finite numbers above 0" if positive else "numbers"
        problem = f"has {strategy.by} {values[first]}, sampler {strategy.method} needs {allowed}"
        raise UnfitEdge(int(ids[first]), problem, f"leave such edges out by a filter, {strategy.by} > 0")
