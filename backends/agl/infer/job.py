"""What is inferred: the graph, the model, the targets, how they are cut; and which nodes each round must make."""

import hashlib
import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from backends.agl.infer.slices import check_state
from backends.kernels import sample_neighbors
from backends.kernels.operand import partition_rows
from backends.model import ModelSpec, State
from datasets.csr import Csr
from datasets.graph import Graph

Nodes = NDArray[np.int64]
Mask = NDArray[np.bool_]
EDGES_OF_A_PARTITION = 1 << 22
_CHUNK = 1 << 16


@dataclass(frozen=True, eq=False)
class Hubs:
    """Nodes of many in-edges, ascending, whose samples were drawn beforehand: by fanout, edge positions of each."""

    nodes: Nodes
    positions: dict[int, list[Nodes]]

    def apart(self, rows: Nodes, fanout: int) -> tuple[Nodes, Nodes]:
        """Those of ascending ``rows`` that are no hubs, and the edges that were drawn for those that are."""
        known = np.flatnonzero(np.isin(self.nodes, rows))
        edges = [self.positions[fanout][at] for at in known]
        return rows[~np.isin(rows, self.nodes)], np.concatenate([*edges, np.empty(0, dtype=np.int64)])


@dataclass(frozen=True, eq=False)
class Job:
    """One inference; ``targets=None`` scores every node, ``partitions=0`` cuts by size.

    ``seed``, ``sampler`` and ``replace`` are those of ``sample_neighbors``, which draws the ``spec.fanouts``.

    Raises ValueError for a model, targets or partitions that do not fit the graph.
    """

    graph: Graph
    spec: ModelSpec
    state: State
    targets: Nodes | None = None
    seed: int = 0
    partitions: int = 0
    sampler: str = "uniform"
    replace: bool = False
    hubs: Hubs | None = None

    def __post_init__(self) -> None:
        check_state(self.spec, self.state, "the state")
        if self.graph.width != self.spec.in_width:
            raise ValueError(f"the model takes {self.spec.in_width} features, {self.graph.name} has {self.graph.width}")
        if self.spec.fanouts and len(self.spec.fanouts) != self.spec.layers:
            raise ValueError(f"fanouts {self.spec.fanouts} are not one per layer: the model has {self.spec.layers}")
        if self.partitions < 0:
            raise ValueError(f"partitions={self.partitions} is not allowed: at least 1, or 0 to cut by size")
        if self.targets is not None and len(self.targets):
            low, high = self.targets.min(), self.targets.max()
            if low < 0 or high >= self.graph.nodes:
                raise ValueError(f"targets reach from {low} to {high}: allowed are 0 to {self.graph.nodes - 1}")

    @cached_property
    def bounds(self) -> Nodes:
        """Nodes of partition p are ``bounds[p]`` up to ``bounds[p + 1]``: pieces of about equal edges."""
        parts = self.partitions or max(1, -(-self.graph.csr.nnz // EDGES_OF_A_PARTITION))
        return partition_rows(self.graph.csr, parts)

    @property
    def parts(self) -> list[tuple[int, int]]:
        """First and last node (exclusive) of every partition that holds any."""
        return [(int(a), int(b)) for a, b in zip(self.bounds[:-1], self.bounds[1:], strict=True) if b > a]

    def fanout(self, layer: int) -> int | None:
        """Neighbours that a layer (0-based) reads of each node, ``None`` for all."""
        return self.spec.fanouts[layer] if self.spec.fanouts else None

    @cached_property
    def needed(self) -> list[Mask | None]:
        """Nodes whose embedding after layer k (0 = features) some target depends on; ``None`` where that is all."""
        layers = self.spec.layers
        if self.targets is None:
            return [None] * (layers + 1)
        mask = np.zeros(self.graph.nodes, dtype=bool)
        mask[self.targets] = True
        found: list[Mask | None] = [mask]
        for layer in reversed(range(layers)):
            made, mask = np.flatnonzero(mask), mask.copy()
            for rows in _chunks(made):
                mask[self.in_edges(rows, layer)[0].indices] = True
            found.insert(0, mask)
        return found

    def in_edges(self, rows: Nodes, layer: int) -> tuple[Csr, Nodes]:
        """In-edges that a layer reads of ascending nodes, and their places in the graph's edge order, ascending."""
        csr, fanout = self.graph.csr, self.fanout(layer)
        if fanout is not None:
            weight = self.graph.edge_weights
            others, known = rows, np.empty(0, dtype=np.int64)
            if self.hubs is not None and fanout in self.hubs.positions:
                others, known = self.hubs.apart(rows, fanout)
            drawn = sample_neighbors(csr, others, fanout, self.seed, self.sampler, weight, self.replace).positions
            positions = np.sort(np.concatenate((drawn, known)))
            indptr = np.concatenate(([0], np.cumsum(self.degrees(rows, layer))))
            return Csr(indptr, np.asarray(csr.indices[positions]), (len(rows), csr.shape[1])), positions
        if not len(rows) or rows[-1] - rows[0] + 1 != len(rows):
            return csr.rows(rows)
        first, last = int(rows[0]), int(rows[-1]) + 1
        start, end = int(csr.indptr[first]), int(csr.indptr[last])
        indptr = np.asarray(csr.indptr[first : last + 1]) - csr.indptr[first]
        return Csr(indptr, np.asarray(csr.indices[start:end]), (last - first, csr.shape[1])), np.arange(start, end)

    def degrees(self, rows: Nodes, layer: int) -> Nodes:
        """How many edges ``in_edges`` returns of each node, known before they are drawn."""
        held: Nodes = (self.graph.csr.indptr[rows + 1] - self.graph.csr.indptr[rows]).astype(np.int64)
        fanout = self.fanout(layer)
        if fanout is None:
            return held
        return np.where(held > 0, fanout, 0) if self.replace else np.minimum(held, fanout)

    def identity(self) -> dict[str, Any]:
        """What a later run must share to go on where this one stopped."""
        return {
            "graph": [self.graph.name, self.graph.sha256, self.graph.nodes, self.graph.csr.nnz],
            "model": json.loads(json.dumps(asdict(self.spec))),
            "state": _digest(*(self.state[name] for name in sorted(self.state))),
            "targets": None if self.targets is None else _digest(self.targets),
            "sampling": [self.seed, self.sampler, self.replace],
        }


def _chunks(rows: Nodes) -> Iterator[Nodes]:
    for start in range(0, len(rows), _CHUNK):
        yield rows[start : start + _CHUNK]


def _digest(*arrays: NDArray[Any]) -> str:
    made = hashlib.sha256()
    for array in arrays:
        made.update(np.ascontiguousarray(array).tobytes())
    return made.hexdigest()[:16]
