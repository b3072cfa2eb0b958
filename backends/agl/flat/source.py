"""Inputs of GraphFlat on disk: the mapped graph, the edges that pass the filter, degrees of the whole graph."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from backends.agl.flat.rounds import InEdgeTable, Ints
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
        for name in ("positions", "indptr"):  # of a run with a filter that was killed here
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
        facts = {"graph": str(graph_folder.resolve()), "sampled_by": strategy.by is not None}
        facts |= {"filtered": bool(filtering), "summed": strategy.by is not None and strategy.method == "weighted"}
        if facts["summed"]:
            _write_sums(graph, folder)
        (folder / "source.json").write_text(json.dumps(facts))
        return cls.open(folder)

    @staticmethod
    def publish(folder: Path, place: str) -> None:
        """Copy what ``build`` wrote, and the graph, to a place that all machines of a cluster reach."""
        facts = json.loads((folder / "source.json").read_text())
        put_folder(Path(facts["graph"]), f"{place}/graph")
        put_folder(folder, place, "*.npy")
        put_text(f"{place}/source.json", json.dumps(facts | {"graph": "graph"}))

    @classmethod
    def open(cls, folder: Path) -> "Source":
        """Memory-map the files that ``build`` wrote."""
        facts = json.loads((folder / "source.json").read_text())
        graph = Graph.load(folder / facts["graph"])  # absolute, or inside the folder
        weighted = folder / "weighted_degrees.npy"
        weight = _mapped(folder / "sampled_by.npy") if facts["sampled_by"] else None
        sums = _mapped(folder / "sums.npy") if facts["summed"] else None
        table = InEdgeTable(graph.csr, weight, sums=sums)
        if facts["filtered"]:
            names = ("indptr", "indices", "edge_ids", "positions")
            indptr, indices, edge_ids, positions = (_mapped(folder / f"{name}.npy") for name in names)
            csr = Csr(indptr, indices, graph.csr.shape, edge_ids)
            table = InEdgeTable(csr, weight, None, positions, sums=sums)
        return cls(graph, table, _mapped(weighted) if weighted.is_file() else None)

    def degrees_of(self, nodes: Ints) -> Ints:
        """In-degrees in the whole graph."""
        indptr = self.graph.csr.indptr
        return (indptr[nodes + 1] - indptr[nodes]).astype(np.int64)


def _mapped_folder(graph: Graph) -> Path | None:
    """Folder that ``Graph.load`` mapped the whole graph from; ``None`` where an array is in memory."""
    features = graph.features.values if isinstance(graph.features, SparseFeatures) else graph.features
    arrays = graph.csr.indptr, graph.csr.indices, features, graph.edge_weights, graph.edge_features
    files = [getattr(array, "filename", None) for array in arrays if array is not None and array.size]
    folders = {None if file is None else Path(file).parent for file in files}
    return folders.pop() if len(folders) == 1 else None


def _mapped(path: Path) -> Any:
    return np.load(path, mmap_mode="r", allow_pickle=False)


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
    positions = _mapped(folder / "positions.npy")
    indptr = create_array(folder / "indptr.npy", csr.indptr.dtype, csr.indptr.shape)
    for start in range(0, len(indptr), EDGES_AT_ONCE):
        bounds = csr.indptr[start : start + EDGES_AT_ONCE].astype(positions.dtype)
        indptr[start : start + EDGES_AT_ONCE] = np.searchsorted(positions, bounds)


def _write_sampled_by(graph: Graph, strategy: SamplingStrategy, folder: Path) -> None:
    """Write the sampling column of the edges that pass the filter, negated for ``reverse``."""
    assert strategy.by is not None
    column, positions_file = edge_columns(graph, strategy.by), folder / "positions.npy"
    positions = _mapped(positions_file) if positions_file.is_file() else None
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
    filtered = folder / "indptr.npy"
    indptr = _mapped(filtered) if filtered.is_file() else graph.csr.indptr
    weight = _mapped(folder / "sampled_by.npy")
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
