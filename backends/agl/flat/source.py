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
from datasets.array_files import append_array, create_array, save_array
from datasets.csr import Csr
from datasets.features import SparseFeatures
from datasets.filters import EdgeFilter, edge_columns
from datasets.graph import Graph

EDGES_AT_ONCE = 1 << 22


class UnfitEdge(StrategyError):
    """An edge whose value sampling cannot use; ``edge`` is its id, a row of the edge table from 0."""

    def __init__(self, edge: int, reason: str) -> None:
        super().__init__(f"edge {edge} {reason}")
        self.edge, self.reason = edge, reason


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

        An unmapped graph is saved there too, so that other processes can map it. Memory does not grow with the graph.
        Raises UnfitEdge for a value that weighted sampling cannot use.
        """
        folder.mkdir(parents=True, exist_ok=True)
        graph_folder = _mapped_folder(graph)
        if graph_folder is None:
            graph_folder = folder / "graph"
            graph_folder.mkdir(exist_ok=True)
            graph.save(graph_folder)
        if graph.edge_weights is not None:
            _write_weighted_degrees(graph, folder / "weighted_degrees.npy")
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
    folders = {_folder_of(array) for array in arrays if array is not None and array.size}
    return folders.pop() if len(folders) == 1 else None


def _folder_of(array: Any) -> Path | None:
    """Folder of the file that an array is mapped from."""
    name = getattr(array, "filename", None)
    return None if name is None else Path(name).parent


def _mapped(path: Path) -> Any:
    return np.load(path, mmap_mode="r", allow_pickle=False)


def row_ranges(indptr: NDArray[np.integer], at_once: int = EDGES_AT_ONCE) -> list[tuple[int, int]]:
    """Split rows into consecutive ranges of about ``at_once`` edges each."""
    edges = np.arange(at_once, int(indptr[-1]), at_once)
    cuts = np.unique(np.concatenate(([0], np.searchsorted(indptr, edges), [len(indptr) - 1])))
    return list(zip(cuts[:-1].tolist(), cuts[1:].tolist(), strict=True))


def _write_weighted_degrees(graph: Graph, path: Path) -> None:
    assert graph.edge_weights is not None
    indptr = graph.csr.indptr
    sums = create_array(path, np.float64, (graph.nodes,))
    for first, last in row_ranges(indptr):
        rows = np.repeat(np.arange(last - first), np.diff(indptr[first : last + 1]))
        weights = graph.edge_weights[indptr[first] : indptr[last]].astype(np.float64)
        sums[first:last] = np.bincount(rows, weights=weights, minlength=last - first)
    sums.flush()


def _write_filtered(graph: Graph, filtering: str, folder: Path) -> None:
    """Write the edges that pass the filter: CSR, ids and positions in the whole graph."""
    indptr, positions_file, edge_filter = graph.csr.indptr, folder / "positions.bin", EdgeFilter(graph, filtering)
    counts = np.zeros(graph.nodes + 1, dtype=np.int64)
    with positions_file.open("wb") as file:
        for first, last in row_ranges(indptr):
            start, end = int(indptr[first]), int(indptr[last])
            mask = edge_filter.mask(start, end)
            running = np.concatenate(([0], np.cumsum(mask)))
            counts[first + 1 : last + 1] = np.diff(running[np.asarray(indptr[first : last + 1]) - start])
            append_array(file, (np.flatnonzero(mask) + start).astype(np.int64))
    total = int(counts.sum())
    positions = np.memmap(positions_file, np.int64, "r", shape=(total,)) if total else np.zeros(0, dtype=np.int64)
    save_array(folder / "indptr.npy", np.cumsum(counts).astype(indptr.dtype))
    shapes: dict[str, Any] = {"positions": np.int64, "indices": graph.csr.indices.dtype, "edge_ids": np.int64}
    out = {name: create_array(folder / f"{name}.npy", dtype, (total,)) for name, dtype in shapes.items()}
    for start in range(0, total, EDGES_AT_ONCE):
        span = slice(start, start + EDGES_AT_ONCE)
        chosen = positions[span]
        out["positions"][span] = chosen
        out["indices"][span] = graph.csr.indices[chosen]
        out["edge_ids"][span] = chosen if graph.csr.edge_ids is None else graph.csr.edge_ids[chosen]
    positions_file.unlink()


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
    for first, last in row_ranges(indptr):
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
        raise UnfitEdge(int(ids[first]), f"{problem}: leave such edges out by a filter, {strategy.by} > 0")
