"""What GraphFlat reads: a memory-mapped graph, the edges that a filter leaves, and degrees of the whole graph."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.lib.format import open_memmap
from numpy.typing import NDArray

from backends.agl.flat.filters import edge_columns, edge_mask
from backends.agl.flat.rounds import Ints, Table
from backends.agl.flat.strategy import Strategy, StrategyError
from backends.kernels.samplers import SAMPLERS
from datasets.csr import Csr
from datasets.graph import Graph

AT_ONCE = 1 << 22  # edges


class UnfitEdge(StrategyError):
    """An edge whose value no sample can be drawn by; ``edge`` is its id, a row of the edge table from 0."""

    def __init__(self, edge: int, told: str) -> None:
        super().__init__(f"edge {edge} {told}")
        self.edge, self.told = edge, told


@dataclass(frozen=True, eq=False)
class Source:
    """A graph as GraphFlat needs it.

    ``graph`` is whole; ``table`` holds the edges to sample from, which a filter has thinned out. ``weighted_degrees``
    float64 [nodes] are sums of in-edge weights in the whole graph, ``None`` where edges have no weights.
    """

    graph: Graph
    table: Table
    weighted_degrees: NDArray[np.float64] | None = None

    @classmethod
    def build(cls, graph: Graph, strategy: Strategy, filtering: str | None, folder: Path) -> "Source":
        """Write into ``folder`` what is computed once for all targets, and open it.

        An unmapped graph is saved there too, so that other processes can map it. Memory does not grow with the graph.
        Raises UnfitEdge for a value that weighted sampling cannot go by.
        """
        folder.mkdir(parents=True, exist_ok=True)
        home = _home(graph)
        if home is None:
            home = folder / "graph"
            home.mkdir(exist_ok=True)
            graph.save(home)
        if graph.edge_weights is not None:
            _write_weighted_degrees(graph, folder / "weighted_degrees.npy")
        if filtering:
            _write_filtered(graph, filtering, folder)
        if strategy.by is not None:
            _write_sampled_by(graph, strategy, folder)
        facts = {"graph": str(home.resolve()), "sampled_by": strategy.by is not None, "filtered": bool(filtering)}
        (folder / "source.json").write_text(json.dumps(facts))
        return cls.open(folder)

    @classmethod
    def open(cls, folder: Path) -> "Source":
        """Memory-map what ``build`` wrote."""
        facts = json.loads((folder / "source.json").read_text())
        graph = Graph.load(Path(facts["graph"]))
        weighted = folder / "weighted_degrees.npy"
        weight = _mapped(folder / "sampled_by.npy") if facts["sampled_by"] else None
        table = Table(graph.csr, weight)
        if facts["filtered"]:
            held = {name: _mapped(folder / f"{name}.npy") for name in ("indptr", "indices", "edge_ids", "positions")}
            csr = Csr(held["indptr"], held["indices"], graph.csr.shape, held["edge_ids"])
            table = Table(csr, weight, None, held["positions"])
        return cls(graph, table, _mapped(weighted) if weighted.is_file() else None)

    def degrees_of(self, nodes: Ints) -> Ints:
        """In-degrees in the whole graph."""
        indptr = self.graph.csr.indptr
        return (indptr[nodes + 1] - indptr[nodes]).astype(np.int64)


def _home(graph: Graph) -> Path | None:
    """Folder of a graph that ``Graph.load`` mapped, else ``None``."""
    array = graph.csr.indptr
    return Path(array.filename).parent if isinstance(array, np.memmap) and array.filename is not None else None


def _mapped(path: Path) -> Any:
    return np.load(path, mmap_mode="r", allow_pickle=False)


def row_ranges(indptr: NDArray[np.integer], at_once: int = AT_ONCE) -> list[tuple[int, int]]:
    """Cut rows into consecutive ranges of about ``at_once`` edges each, a row never in two."""
    wanted = np.arange(at_once, int(indptr[-1]), at_once)
    cuts = np.unique(np.concatenate(([0], np.searchsorted(indptr, wanted), [len(indptr) - 1])))
    return list(zip(cuts[:-1].tolist(), cuts[1:].tolist(), strict=True))


def _write_weighted_degrees(graph: Graph, path: Path) -> None:
    assert graph.edge_weights is not None
    indptr = graph.csr.indptr
    sums = open_memmap(path, "w+", np.float64, (graph.nodes,))
    for first, last in row_ranges(indptr):
        rows = np.repeat(np.arange(last - first), np.diff(indptr[first : last + 1]))
        weights = graph.edge_weights[indptr[first] : indptr[last]].astype(np.float64)
        sums[first:last] = np.bincount(rows, weights=weights, minlength=last - first)
    sums.flush()


def _write_filtered(graph: Graph, filtering: str, folder: Path) -> None:
    """Write the edges that ``filtering`` keeps: their CSR, ids and positions in the whole graph."""
    indptr, kept = graph.csr.indptr, folder / "positions.bin"
    counts = np.zeros(graph.nodes + 1, dtype=np.int64)
    with kept.open("wb") as file:
        for first, last in row_ranges(indptr):
            start, end = int(indptr[first]), int(indptr[last])
            mask = edge_mask(graph, filtering, start, end)
            running = np.concatenate(([0], np.cumsum(mask)))
            counts[first + 1 : last + 1] = np.diff(running[np.asarray(indptr[first : last + 1]) - start])
            (np.flatnonzero(mask) + start).astype(np.int64).tofile(file)
    total = int(counts.sum())
    found = np.memmap(kept, np.int64, "r", shape=(total,)) if total else np.zeros(0, dtype=np.int64)
    np.save(folder / "indptr.npy", np.cumsum(counts).astype(indptr.dtype))
    shapes: dict[str, Any] = {"positions": np.int64, "indices": graph.csr.indices.dtype, "edge_ids": np.int64}
    out = {name: open_memmap(folder / f"{name}.npy", "w+", dtype, (total,)) for name, dtype in shapes.items()}
    for start in range(0, total, AT_ONCE):
        here = slice(start, start + AT_ONCE)
        out["positions"][here] = found[here]
        out["indices"][here] = graph.csr.indices[found[here]]
        out["edge_ids"][here] = found[here] if graph.csr.edge_ids is None else graph.csr.edge_ids[found[here]]
    kept.unlink()


def _write_sampled_by(graph: Graph, strategy: Strategy, folder: Path) -> None:
    """Write the column that sampling goes by, of the edges that are left; turned round where topk is reversed."""
    assert strategy.by is not None
    column, positions = edge_columns(graph, strategy.by), folder / "positions.npy"
    kept = _mapped(positions) if positions.is_file() else None
    count = len(column) if kept is None else len(kept)
    out = open_memmap(folder / "sampled_by.npy", "w+", np.float32, (count,))
    for start in range(0, count, AT_ONCE):
        here = slice(start, start + AT_ONCE)
        places = np.arange(start, min(start + AT_ONCE, count)) if kept is None else kept[here]
        values = np.asarray(column[places], dtype=np.float32)
        _refuse_unfit(values, places if graph.csr.edge_ids is None else graph.csr.edge_ids[places], strategy)
        out[here] = -values if strategy.reverse else values
    out.flush()


def _refuse_unfit(values: NDArray[np.float32], ids: NDArray[np.integer], strategy: Strategy) -> None:
    positive = SAMPLERS[strategy.method].positive
    unfit = ~np.isfinite(values) | (values <= 0) if positive else np.isnan(values)
    if unfit.any():
        first = np.flatnonzero(unfit)[ids[unfit].argmin()]
        allowed = "finite numbers above 0" if positive else "numbers"
        told = f"has {strategy.by} {values[first]}, sampler {strategy.method} needs {allowed}"
        raise UnfitEdge(int(ids[first]), f"{told}: leave such edges out by a filter, {strategy.by} > 0")
