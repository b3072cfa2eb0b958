"""Proof that a dispatched partition is the graph: every node, edge, HALO node and attribute, read back and compared."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from backends.distpart.dispatch.job import EDGE_MAP, NODE_MAP
from backends.distpart.dispatch.metadata import check_counts, part_folder
from backends.distpart.dispatch.part import EDGE_FEATURES, GRAPH, NODE_FEATURES, ORIGINAL_EDGES, ORIGINAL_NODES
from backends.distpart.files.columns import mapped
from backends.distpart.partition_graph import TRAINER
from backends.distpart.typed_graph import GraphError, TypedGraph, rows_at_once
from datasets.features import SparseFeatures
from datasets.partition.description import read_description
from datasets.partition.dgl_format import StoredGraph, read_graph, read_tensors
from datasets.schema import Relation

_ORIGINALS = (ORIGINAL_NODES, ORIGINAL_EDGES)
_PIECE = 1 << 22


def verify(graph: TypedGraph, config: Path) -> dict[str, int]:
    """Check all parts against the graph; returns counts of nodes, edges and HALO nodes.

    Every node is in one part and every edge in that of its destination, once; ranges are contiguous; HALO nodes are
    those sources that other parts own, with their in-edges in each further hop; parts, types, original ids and
    attributes are those of the graph; the maps agree. Raises GraphError with the first thing that is wrong.
    """
    facts = read_description(config)
    for name, count in (("num_nodes", graph.total_nodes), ("num_edges", graph.total_edges)):
        if facts[name] != count:
            raise GraphError(f"{config} says {name}={facts[name]}, the graph has {count}")
    check_counts(config, facts)
    check = _Check(graph, config, facts)
    halo = sum(check.part(part) for part in range(facts["num_parts"]))
    check.all_edges()
    for part in range(facts["num_parts"]):
        check.far_edges(part)
    return {"nodes": graph.total_nodes, "edges": graph.total_edges, "halo": halo, "parts": facts["num_parts"]}


@dataclass
class _Check:
    graph: TypedGraph
    config: Path
    facts: dict[str, Any]

    def __post_init__(self) -> None:
        """Number the nodes: a node's new id follows from its part and its place there."""
        parts, schema = range(self.facts["num_parts"]), self.graph.schema
        self.nodes, self.edges = ([read_tensors(self._file(part, name)) for part in parts] for name in _ORIGINALS)
        for part in parts:
            for tables, kinds in ((self.nodes, schema.node_types), (self.edges, schema.relations)):
                self._require(set(tables[part]) == set(map(str, kinds)), part, "types of original ids")
        self.node_ends = self._ends("node_map", schema.node_types, self.nodes)
        self.edge_ends = self._ends("edge_map", schema.relations, self.edges)
        total_nodes = self.graph.total_nodes
        self.new_ids = np.full(total_nodes, -1, dtype=np.int64)
        self.edge_rows, self.id_counts = dict[Relation, list[NDArray[np.int64]]](), dict[Relation, int]()
        next_node, self.last_trainer = 0, -1
        for part in parts:
            for kind in schema.node_types:
                originals = self.nodes[part][kind]
                self._require(_within(originals, self.graph.nodes[kind]), part, f"original ids of {kind}")
                ids = originals + self.graph.starts[kind]
                self._require((self.new_ids[ids] < 0).all(), part, f"a node of {kind} that another part has")
                self.new_ids[ids] = np.arange(next_node, next_node + len(ids))
                next_node += len(ids)
        if (self.new_ids < 0).any():
            raise GraphError(f"node {int(np.argmin(self.new_ids))} is in no part")
        if not np.array_equal(self._map(NODE_MAP, total_nodes), self._owners(self.node_ends, self.new_ids)):
            raise GraphError(f"{NODE_MAP} does not say the parts of the nodes")

    @cached_property
    def graphs(self) -> list[StoredGraph]:
        """The graphs of all parts, mapped."""
        return [read_graph(self._file(part, GRAPH)) for part in range(len(self.nodes))]

    @cached_property
    def original_nodes(self) -> NDArray[np.int64]:
        """Original ids of all nodes, in the order of their new ids."""
        return np.concatenate([table[kind] for table in self.nodes for kind in self.graph.schema.node_types])

    @cached_property
    def original_edges(self) -> NDArray[np.int64]:
        """Original ids of all edges, in the order of their new ids."""
        return np.concatenate([table[str(kind)] for table in self.edges for kind in self.graph.schema.relations])

    def _ends(self, table: str, kinds: Any, originals: list[dict[str, NDArray[Any]]]) -> NDArray[np.int64]:
        """The ends [parts, types] of the ranges of new ids, each of which begins where the one before ends."""
        ends, last = np.empty((len(originals), len(kinds)), dtype=np.int64), 0
        for part, tables in enumerate(originals):
            for number, kind in enumerate(kinds):
                try:
                    start, end = map(int, self.facts[table][str(kind)][part])
                except (KeyError, IndexError, TypeError, ValueError) as error:
                    raise GraphError(f"{self.config}: {table} has no range of {kind} in part {part}") from error
                self._require(start == last and end - start == len(tables[str(kind)]), part, f"range of {kind}")
                ends[part, number] = last = end
        return ends

    def _map(self, name: str, count: int) -> NDArray[Any]:
        """The part of each of ``count`` nodes, or ids of edges, mapped."""
        parts = mapped(self.config.parent / name, name)
        if parts.shape != (count,):
            raise GraphError(f"{name} has {len(parts)} rows, the graph {count}")
        return parts

    @staticmethod
    def _owners(ends: NDArray[np.int64], ids: NDArray[np.integer]) -> NDArray[np.int64]:
        """The part of each new id."""
        return np.searchsorted(ends[:, -1], ids, side="right")

    def _stored(self, part: int) -> StoredGraph:
        """The graph of a part, whose columns and ends are those of its nodes and edges."""
        stored = self.graphs[part]
        damage = stored.damage()
        self._require(not damage, part, damage)
        needed = {"_ID", "part_id", "inner_node", "_TYPE"}, {"_ID", "inner_edge", "_TYPE"}
        for columns, names in zip((stored.ndata, stored.edata), needed, strict=True):
            missing = sorted(names - set(columns) - (set() if self.graph.is_typed else {"_TYPE"}))
            self._require(not missing, part, f"it has no {', '.join(missing)}")
        return stored

    def part(self, part: int) -> int:
        """Check nodes, numbers of edges and attributes of one part; returns the number of its HALO nodes."""
        stored = self._stored(part)
        first, last = _span(self.node_ends, part)
        inner, ids = stored.ndata["inner_node"].astype(bool), stored.ndata["_ID"]
        owned = np.array_equal(ids[: last - first], np.arange(first, last)) and inner[: last - first].all()
        halo = ids[last - first :]
        self._require(owned and not inner[last - first :].any(), part, "owned nodes")
        self._require(_within(halo, self.graph.total_nodes), part, "HALO nodes that are no nodes")
        self._require(not ((halo >= first) & (halo < last)).any(), part, "HALO nodes that it owns")
        self._require(len(np.unique(halo)) == len(halo), part, "a HALO node twice")
        first_edge, last_edge = _span(self.edge_ends, part)
        count, numbers = last_edge - first_edge, stored.edata["_ID"]
        inner_edges = stored.edata["inner_edge"].astype(bool)
        self._require(inner_edges[:count].all() and not inner_edges[count:].any(), part, "number of inner edges")
        self._require(np.array_equal(numbers[:count], np.arange(first_edge, last_edge)), part, "edge ids")
        self._require(_within(numbers, self.graph.total_edges), part, "far edges that are no edges")
        self._require(np.array_equal(stored.ndata["part_id"], self._owners(self.node_ends, ids)), part, "part_id")
        self._types_and_originals(part, stored)
        self._attributes(part)
        if self.has_trainers:
            self._trainers(part, stored)
        return len(halo)

    def _types_and_originals(self, part: int, stored: StoredGraph) -> None:
        """Check what else a graph says of each node and edge, as it follows from their new ids."""
        schema = self.graph.schema
        checks = (
            ("nodes", stored.ndata, self.node_ends, len(schema.node_types), lambda: self.original_nodes),
            ("edges", stored.edata, self.edge_ends, len(schema.relations), lambda: self.original_edges),
        )
        for what, columns, ends, kinds, originals in checks:
            ids = columns["_ID"]
            if "_TYPE" in columns:
                types = np.searchsorted(ends.ravel(), ids, side="right") % kinds
                self._require(np.array_equal(columns["_TYPE"], types), part, f"_TYPE of {what}")
            if "orig_id" in columns:
                self._require(np.array_equal(columns["orig_id"], originals()[ids]), part, f"orig_id of {what}")

    def far_edges(self, part: int) -> None:
        """Check HALO nodes, and edges beyond the first hop: the in-edges of the hops before, as owners have them."""
        (first, last), (first_edge, last_edge) = _span(self.node_ends, part), _span(self.edge_ends, part)
        stored, count = self.graphs[part], last_edge - first_edge
        ids, needed = stored.ndata["_ID"], [np.empty((3, 0), dtype=np.int64)]
        known = np.zeros(self.graph.total_nodes, dtype=bool)
        known[first:last] = True
        reached = self._beyond(known, ids[stored.sources[:count]])
        for _ in range(1, self.facts.get("halo_hops", 1)):
            if not reached.any():
                break
            known |= reached
            needed.append(self._in_edges(reached))
            reached = self._beyond(known, needed[-1][1])
        halo = np.flatnonzero(known | reached)
        halo = halo[(halo < first) | (halo >= last)]
        self._require(np.array_equal(np.sort(ids[last - first :]), halo), part, "HALO nodes")
        numbers, sources, destinations = stored.edata["_ID"], ids[stored.sources], ids[stored.destinations]
        far = np.stack([numbers[count:], sources[count:], destinations[count:]])
        expected = np.concatenate(needed, axis=1)
        same = np.array_equal(far[:, np.argsort(far[0])], expected[:, np.argsort(expected[0])])
        self._require(same, part, "far edges, those to HALO nodes")

    @staticmethod
    def _beyond(known: NDArray[np.bool_], nodes: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Which nodes are among some and not known."""
        reached = np.zeros_like(known)
        reached[nodes] = True
        return reached & ~known

    def _in_edges(self, wanted: NDArray[np.bool_]) -> NDArray[np.int64]:
        """New ids, sources and destinations [3, edges] of the edges to some nodes, from the parts that own them."""
        pieces = []
        for owner in np.unique(self._owners(self.node_ends, np.flatnonzero(wanted))).tolist():
            first, last = _span(self.edge_ends, owner)
            stored = self.graphs[owner]
            ids, ends = stored.ndata["_ID"], (stored.sources, stored.destinations)
            places = np.flatnonzero(wanted[ids[ends[1][: last - first]]])
            pieces.append(np.stack([first + places, ids[ends[0][places]], ids[ends[1][places]]]))
        return np.concatenate([np.empty((3, 0), dtype=np.int64), *pieces], axis=1)

    def all_edges(self) -> None:
        """Check that each edge is in the part of its destination, once, with its own ends."""
        rows_of = {relation: self._rows(relation) for relation in self.graph.schema.relations}
        edge_parts = self._map(EDGE_MAP, sum(self.id_counts.values()))
        before, first_id = [0] * len(self.graphs), 0
        for relation, rows in rows_of.items():
            orders = [None if (np.diff(ids) > 0).all() else np.argsort(ids, kind="stable") for ids in rows]
            rows = [ids if order is None else ids[order] for ids, order in zip(rows, orders, strict=True)]
            count = self.graph.edges[relation].count
            for start in range(0, count, _PIECE):
                stop = min(start + _PIECE, count)
                expected = self.new_ids[np.stack(self.graph.read(relation, start, stop))]
                seen = np.zeros(stop - start, dtype=np.int64)
                for part, stored in enumerate(self.graphs):
                    low, high = np.searchsorted(rows[part], (start, stop))
                    here, order = rows[part][low:high] - start, orders[part]
                    own = np.arange(low, high) if order is None else order[low:high]
                    places = before[part] + own
                    ends = stored.ndata["_ID"][np.stack([stored.sources[places], stored.destinations[places]])]
                    self._require(np.array_equal(ends, expected[:, here]), part, f"ends of edges of {relation}")
                    np.add.at(seen, here, 1)
                    owners = np.asarray(edge_parts[first_id + self.edges[part][str(relation)][own]])
                    self._require((owners == part).all(), part, f"edges of {relation} in {EDGE_MAP}")
                if (seen != 1).any():
                    row = int(np.flatnonzero(seen != 1)[0])
                    raise GraphError(f"edge {start + row} of {relation} is in {seen[row]} parts: one was needed")
            before = [first + len(ids) for first, ids in zip(before, rows, strict=True)]
            first_id += self.id_counts[relation]

    def _rows(self, relation: Relation) -> list[NDArray[np.int64]]:
        """Rows of a relation's edges in each part, in the order of their new ids; they are looked up once."""
        if relation not in self.edge_rows:
            self.edge_rows[relation] = list(self._rows_by_id(relation))
        return self.edge_rows[relation]

    def _rows_by_id(self, relation: Relation) -> Iterator[NDArray[np.int64]]:
        """Rows of the relation that have the original ids of each part."""
        rows = np.arange(self.graph.edges[relation].count)
        ids = self.graph.edges[relation].original_ids(rows)
        self.id_counts[relation] = max(len(ids), int(ids.max(initial=-1)) + 1)
        order = None if ids is rows else np.argsort(ids, kind="stable")
        ordered = ids if order is None else ids[order]
        for part, tables in enumerate(self.edges):
            originals = tables[str(relation)]
            places = np.searchsorted(ordered, originals)
            is_edge = (places < len(ordered)).all() and np.array_equal(ordered[places], originals)
            self._require(is_edge, part, f"an original id of {relation} is that of no edge")
            yield places if order is None else order[places]

    def _attributes(self, part: int) -> None:
        tables: list[tuple[str, Any, Any]] = [
            (NODE_FEATURES, self.graph.node_data, self.nodes[part]),
            (EDGE_FEATURES, self.graph.edge_data, self.edges[part]),
        ]
        for file, table, originals in tables:
            stored = read_tensors(self._file(part, file))
            names = {f"{kind}/{name}" for kind, arrays in table.items() for name in arrays}
            names |= {f"{kind}/{TRAINER}" for kind in originals if self.has_trainers}
            self._require(set(stored) == names, part, f"attributes {sorted(names ^ set(stored))}")
            for kind, arrays in table.items():
                ids = originals[str(kind)]
                rows = self._rows(kind)[part] if isinstance(kind, Relation) else ids
                for name, array in arrays.items():
                    written = stored[f"{kind}/{name}"]
                    self._require(len(written) == len(rows), part, f"number of rows of {kind}/{name}")
                    self._require(self._are_rows(written, rows, array), part, f"rows of {kind}/{name}")

    @staticmethod
    def _are_rows(written: NDArray[Any], rows: NDArray[np.int64], array: Any) -> bool:
        """Whether what was written are some rows of an attribute, of which a piece at a time is compared."""
        length = rows_at_once(array)
        for start in range(0, len(rows), length):
            piece = np.asarray(rows[start : start + length])
            order = np.argsort(piece, kind="stable")  # files are read in the order of their rows
            expected = array[piece[order]]
            expected = expected.dense() if isinstance(expected, SparseFeatures) else expected
            is_float = expected.dtype.kind == "f"
            if not np.array_equal(written[start : start + length][order], expected, equal_nan=is_float):
                return False
        return True

    @cached_property
    def has_trainers(self) -> bool:
        """Whether ``partition --trainers`` added the trainers of nodes and edges, which the graph does not have."""
        is_theirs = any(TRAINER in arrays for arrays in self.graph.node_data.values())
        return not is_theirs and any(
            name.endswith(f"/{TRAINER}") for name in read_tensors(self._file(0, NODE_FEATURES))
        )

    def _trainers(self, part: int, stored: StoredGraph) -> None:
        """Check that trainers ascend by part, and that an edge's is that of its destination."""
        nodes, edges = self._trainer_ids(part)
        self._require((nodes > self.last_trainer).all(), part, f"{TRAINER} of nodes: an earlier part has such ones")
        self.last_trainer = int(nodes.max(initial=self.last_trainer))
        destinations = stored.destinations[: len(edges)]
        same = _within(destinations, len(nodes)) and np.array_equal(edges, nodes[destinations])
        self._require(same, part, f"{TRAINER} of edges")

    def _trainer_ids(self, part: int) -> list[NDArray[np.int64]]:
        """The trainers of a part's nodes and edges, in the order of their new ids."""
        schema, columns = self.graph.schema, list[NDArray[np.int64]]()
        for file, kinds, originals in (
            (NODE_FEATURES, schema.node_types, self.nodes[part]),
            (EDGE_FEATURES, schema.relations, self.edges[part]),
        ):
            tensors, rows = read_tensors(self._file(part, file)), list[NDArray[np.int64]]()
            for kind in map(str, kinds):
                rows.append(tensors[f"{kind}/{TRAINER}"])
                is_column = rows[-1].shape == (len(originals[kind]),) and rows[-1].dtype.kind == "i"
                self._require(is_column, part, f"{kind}/{TRAINER}, which is no integer for each row")
            columns.append(np.concatenate(rows))
        return columns

    def _file(self, part: int, name: str) -> Path:
        return self.config.parent / part_folder(part) / name

    def _require(self, holds: Any, part: int, what: str) -> None:
        if not holds:
            raise GraphError(f"part {part} is wrong: {what}")


def _span(ends: NDArray[np.int64], part: int) -> tuple[int, int]:
    """First and last new id of a part."""
    return int(ends[part - 1, -1]) if part else 0, int(ends[part, -1])


def _within(ids: NDArray[np.int64], count: int) -> bool:
    return bool(((ids >= 0) & (ids < count)).all())
