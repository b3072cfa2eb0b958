"""Proof that a dispatched partition is the graph: every node, edge, HALO node and attribute, read back and compared."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from backends.distpart.dispatch.job import EDGE_MAP, NODE_MAP
from backends.distpart.dispatch.metadata import part_folder
from backends.distpart.dispatch.part import EDGE_FEATURES, GRAPH, NODE_FEATURES, ORIGINAL_EDGES, ORIGINAL_NODES
from backends.distpart.typed_graph import GraphError, TypedGraph
from datasets.features import SparseFeatures
from datasets.partition.description import read_description
from datasets.partition.dgl_format import read_graph, read_tensors
from datasets.schema import Relation

_ORIGINALS = (ORIGINAL_NODES, ORIGINAL_EDGES)
_PIECE = 1 << 22


def verify(graph: TypedGraph, config: Path) -> dict[str, int]:
    """Check all parts against the graph; returns counts of nodes, edges and HALO nodes.

    Every node is in one part and every edge in that of its destination, once; ranges are contiguous; HALO nodes are
    those sources that other parts own; attributes are those of the original ids; the maps agree. Raises GraphError
    with the first thing that is wrong.
    """
    facts = read_description(config)
    for name, count in (("num_nodes", graph.total_nodes), ("num_edges", graph.total_edges)):
        if facts[name] != count:
            raise GraphError(f"{config} says {name}={facts[name]}, the graph has {count}")
    check = _Check(graph, config.parent, facts)
    halo = sum(check.part(part) for part in range(facts["num_parts"]))
    check.all_edges()
    return {"nodes": graph.total_nodes, "edges": graph.total_edges, "halo": halo, "parts": facts["num_parts"]}


@dataclass
class _Check:
    graph: TypedGraph
    folder: Path
    facts: dict[str, Any]

    def __post_init__(self) -> None:
        """Number the nodes: a node's new id follows from its part and its place there."""
        parts = range(self.facts["num_parts"])
        self.nodes, self.edges = ([read_tensors(self._file(part, name)) for part in parts] for name in _ORIGINALS)
        self.new_ids = np.full(self.graph.total_nodes, -1, dtype=np.int64)
        self.next_node = self.next_edge = 0
        for part in parts:
            for kind in self.graph.schema.node_types:
                start, end = self.facts["node_map"][kind][part]
                originals = self.nodes[part][kind]
                self._require(_within(originals, self.graph.nodes[kind]), part, f"original ids of {kind}")
                ids = originals + self.graph.starts[kind]
                self._require(start == self.next_node and end - start == len(ids), part, f"range of node type {kind}")
                self._require((self.new_ids[ids] < 0).all(), part, f"a node of {kind} that another part has")
                self.new_ids[ids] = np.arange(start, end)
                self.next_node = end
        if (self.new_ids < 0).any():
            raise GraphError(f"node {int(np.argmin(self.new_ids))} is in no part")
        ends = [self.facts["node_map"][self.graph.schema.node_types[-1]][part][1] for part in parts]
        if not np.array_equal(np.load(self.folder / NODE_MAP), np.searchsorted(ends, self.new_ids, side="right")):
            raise GraphError(f"{NODE_MAP} does not say the parts of the nodes")

    def part(self, part: int) -> int:
        """Check nodes, ranges and attributes of one part; returns the number of its HALO nodes."""
        stored = read_graph(self._file(part, GRAPH))
        kinds = self.graph.schema.node_types
        first, last = self.facts["node_map"][kinds[0]][part][0], self.facts["node_map"][kinds[-1]][part][1]
        inner, ids = stored.ndata["inner_node"].astype(bool), stored.ndata["_ID"]
        owned = np.array_equal(ids[: last - first], np.arange(first, last)) and inner[: last - first].all()
        halo = ids[last - first :]
        self._require(owned and not inner[last - first :].any(), part, "owned nodes")
        self._require(not ((halo >= first) & (halo < last)).any(), part, "HALO nodes that it owns")
        self._require(len(np.unique(halo)) == len(halo), part, "a HALO node twice")
        inner_edges = stored.edata["inner_edge"].astype(bool)
        sources = np.unique(ids[stored.sources[inner_edges]])
        needed = sources[(sources < first) | (sources >= last)]
        far = self.facts["halo_hops"] > 1
        self._require(np.isin(needed, halo).all() and (far or len(needed) == len(halo)), part, "HALO nodes")
        numbers = stored.edata["_ID"][inner_edges]
        position = 0
        for relation in self.graph.schema.relations:
            start, end = self.facts["edge_map"][str(relation)][part]
            count = len(self.edges[part][str(relation)])
            self._require(start == self.next_edge and end - start == count, part, f"range of relation {relation}")
            new_ids = numbers[position : position + count]
            self._require(np.array_equal(new_ids, np.arange(start, end)), part, f"edge ids of {relation}")
            position, self.next_edge = position + count, end
        self._require(position == len(numbers), part, "number of inner edges")
        self._attributes(part)
        return len(halo)

    def all_edges(self) -> None:
        """Check that each edge is in the part of its destination, once, with its own ends."""
        edge_parts = np.load(self.folder / EDGE_MAP, mmap_mode="r")
        graphs = [read_graph(self._file(part, GRAPH)) for part in range(self.facts["num_parts"])]
        before, offset = [0] * len(graphs), 0
        for relation in self.graph.schema.relations:
            rows = [self._rows(relation, edges[str(relation)]) for edges in self.edges]
            orders = [None if (np.diff(ids) > 0).all() else np.argsort(ids, kind="stable") for ids in rows]
            rows = [ids if order is None else ids[order] for ids, order in zip(rows, orders, strict=True)]
            count = self.graph.edges[relation].count
            for start in range(0, count, _PIECE):
                stop = min(start + _PIECE, count)
                expected = self.new_ids[np.stack(self.graph.read(relation, start, stop))]
                seen = np.zeros(stop - start, dtype=np.int64)
                for part, stored in enumerate(graphs):
                    low, high = np.searchsorted(rows[part], (start, stop))
                    here, order = rows[part][low:high] - start, orders[part]
                    places = before[part] + (np.arange(low, high) if order is None else order[low:high])
                    ends = stored.ndata["_ID"][np.stack([stored.sources[places], stored.destinations[places]])]
                    self._require(np.array_equal(ends, expected[:, here]), part, f"ends of edges of {relation}")
                    np.add.at(seen, here, 1)
                    owners = np.asarray(edge_parts[offset + start + here])
                    self._require((owners == part).all(), part, f"edges of {relation} in {EDGE_MAP}")
                if (seen != 1).any():
                    row = int(np.flatnonzero(seen != 1)[0])
                    raise GraphError(f"edge {start + row} of {relation} is in {seen[row]} parts: one was needed")
            before = [first + len(ids) for first, ids in zip(before, rows, strict=True)]
            offset += count

    def _rows(self, relation: Relation, originals: NDArray[np.int64]) -> NDArray[np.int64]:
        """Rows of the relation that have the given original ids."""
        rows = np.arange(self.graph.edges[relation].count)
        every = self.graph.edges[relation].original_ids(rows)
        order = rows if every is rows else np.argsort(every, kind="stable")
        if not len(order):
            return originals
        places = np.searchsorted(every, originals, sorter=order)
        nearest = order[np.minimum(places, len(order) - 1)]
        if not np.array_equal(every[nearest], originals):
            raise GraphError(f"an original id of {relation} is that of no edge")
        return nearest

    def _attributes(self, part: int) -> None:
        tables: list[tuple[str, Any, Any]] = [
            (NODE_FEATURES, self.graph.node_data, self.nodes[part]),
            (EDGE_FEATURES, self.graph.edge_data, self.edges[part]),
        ]
        for file, table, originals in tables:
            stored = read_tensors(self._file(part, file))
            names = {f"{kind}/{name}" for kind, arrays in table.items() for name in arrays}
            self._require(set(stored) == names, part, f"attributes {sorted(names ^ set(stored))}")
            for kind, arrays in table.items():
                ids = originals[str(kind)]
                rows = self._rows(kind, ids) if isinstance(kind, Relation) else ids
                for name, array in arrays.items():
                    for start in range(0, len(rows), _PIECE):
                        expected = array[np.asarray(rows[start : start + _PIECE])]
                        expected = expected.dense() if isinstance(expected, SparseFeatures) else expected
                        written = stored[f"{kind}/{name}"][start : start + _PIECE]
                        self._require(np.array_equal(written, expected), part, f"rows of {kind}/{name}")

    def _file(self, part: int, name: str) -> Path:
        return self.folder / part_folder(part) / name

    def _require(self, holds: Any, part: int, what: str) -> None:
        if not holds:
            raise GraphError(f"part {part} is wrong: {what}")


def _within(ids: NDArray[np.int64], count: int) -> bool:
    return bool(((ids >= 0) & (ids < count)).all())
