"""What is partitioned and dispatched: nodes and edges by type, with their attributes, read in pieces."""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from datasets.csr import Csr
from datasets.graph import Graph
from datasets.partition.description import node_attributes
from datasets.schema import HOMOGENEOUS, Relation, Schema

Ids = NDArray[np.int64]
Attributes = Mapping[str, Any]  # arrays by name, whose rows are read by slices and by numbers
MOST_ROW_BYTES = 1 << 24  # of the rows of an attribute that are in memory at a time


class GraphError(ValueError):
    """Edges or attributes that do not fit the graph."""


def row_bytes(array: Any) -> int:
    """Bytes of a row of an attribute, of a sparse one when it is written."""
    return math.prod(array.shape[1:]) * np.dtype(array.dtype).itemsize


def rows_at_once(array: Any) -> int:
    """How many rows of an attribute, or of their numbers, are in memory at a time, at least one."""
    return max(1, MOST_ROW_BYTES // max(8, row_bytes(array)))


class RelationEdges(Protocol):
    """The edges of one relation, read in pieces."""

    @property
    def count(self) -> int:
        """Number of edges."""
        ...

    def read(self, start: int, stop: int) -> tuple[Ids, Ids]:
        """Sources and destinations of some edges, as ids within their types."""
        ...

    def original_ids(self, rows: Ids) -> Ids:
        """The ids by which the user knows the edges of some rows."""
        ...


@dataclass(frozen=True)
class ArrayEdges:
    """Edges in two arrays, which may be mapped; an edge's id is its row unless ``ids`` says otherwise."""

    sources: NDArray[Any]
    destinations: NDArray[Any]
    ids: NDArray[Any] | None = None

    @property
    def count(self) -> int:
        """Number of edges."""
        return len(self.sources)

    def read(self, start: int, stop: int) -> tuple[Ids, Ids]:
        """Sources and destinations of rows."""
        return np.asarray(self.sources[start:stop], np.int64), np.asarray(self.destinations[start:stop], np.int64)

    def original_ids(self, rows: Ids) -> Ids:
        """The ids of rows."""
        return rows if self.ids is None else np.asarray(self.ids[rows], dtype=np.int64)


@dataclass(frozen=True)
class CsrEdges:
    """The in-edges of a graph, by destination; their ids are those of the matrix."""

    csr: Csr

    @property
    def count(self) -> int:
        """Number of edges."""
        return self.csr.nnz

    def read(self, start: int, stop: int) -> tuple[Ids, Ids]:
        """Sources and destinations of positions in the matrix."""
        sources, destinations = self.csr.edges(start, stop)
        return sources.astype(np.int64), destinations.astype(np.int64)

    def original_ids(self, rows: Ids) -> Ids:
        """The edge ids of the matrix at positions."""
        return rows if self.csr.edge_ids is None else np.asarray(self.csr.edge_ids[rows], dtype=np.int64)


@dataclass(frozen=True)
class TypedGraph:
    """Nodes and edges by type; a graph without types has one of each, ``_N`` and ``_E``.

    ``nodes``: their number by type, in the order of the schema. A node's homogeneous id is its id within its type plus
    the number of nodes of the types before. ``node_data`` and ``edge_data`` hold arrays by type and name.
    ``sha256`` names the content where it is known, as that of a data set.
    """

    name: str
    schema: Schema
    nodes: Mapping[str, int]
    edges: Mapping[Relation, RelationEdges]
    node_data: Mapping[str, Attributes] = field(default_factory=dict)
    edge_data: Mapping[Relation, Attributes] = field(default_factory=dict)
    sha256: str = ""

    def __post_init__(self) -> None:
        """Raise GraphError for attributes of another length than their type."""
        counts = {relation: edges.count for relation, edges in self.edges.items()}
        tables: list[tuple[Any, Any]] = [(self.node_data, self.nodes), (self.edge_data, counts)]
        for attributes, sizes in tables:
            for kind, arrays in attributes.items():
                for name, array in arrays.items():
                    if len(array) != sizes[kind]:
                        raise GraphError(
                            f"{kind}/{name} has {len(array)} rows, there are {sizes[kind]} of {kind}: give one for each"
                        )

    @property
    def is_typed(self) -> bool:
        """Whether there is more than one type of nodes or edges."""
        return len(self.schema.node_types) > 1 or len(self.schema.relations) > 1

    @cached_property
    def starts(self) -> dict[str, int]:
        """The first homogeneous id of each node type."""
        counts = [self.nodes[kind] for kind in self.schema.node_types]
        return dict(zip(self.schema.node_types, np.cumsum([0, *counts]).tolist(), strict=False))

    @property
    def total_nodes(self) -> int:
        """Nodes of all types."""
        return sum(self.nodes.values())

    @property
    def total_edges(self) -> int:
        """Edges of all relations."""
        return sum(edges.count for edges in self.edges.values())

    def read(self, relation: Relation, start: int, stop: int) -> tuple[Ids, Ids]:
        """Homogeneous ids of both ends of some edges; raises GraphError naming the row of an id that is not there."""
        ends = self.edges[relation].read(start, stop)
        for what, kind, ids in zip(
            ("source", "destination"), (relation.source, relation.destination), ends, strict=True
        ):
            if len(ids) and (ids.min() < 0 or ids.max() >= self.nodes[kind]):
                wrong = np.flatnonzero((ids < 0) | (ids >= self.nodes[kind]))
                raise GraphError(
                    f"edge {start + wrong[0]} of {relation} has {what} {ids[wrong[0]]}: "
                    f"{kind} has {self.nodes[kind]} nodes, ids 0 to {self.nodes[kind] - 1}"
                )
        if not self.is_typed:
            return ends
        return ends[0] + self.starts[relation.source], ends[1] + self.starts[relation.destination]

    def attributes(self) -> Iterator[tuple[str, Any]]:
        """All attributes of nodes and edges, named by type and name."""
        tables: list[Mapping[Any, Attributes]] = [self.node_data, self.edge_data]
        for kind, arrays in (item for table in tables for item in table.items()):
            for name, array in arrays.items():
                yield f"{kind}/{name}", array

    def without_attributes(self) -> "TypedGraph":
        """The nodes and edges alone."""
        return replace(self, node_data={}, edge_data={})

    def chunks(self, length: int) -> Iterator[tuple[Relation, int, int]]:
        """Relation, first and last row of pieces of at most ``length`` edges."""
        for relation in self.schema.relations:
            count = self.edges[relation].count
            for start in range(0, count, length):
                yield relation, start, min(start + length, count)


def check_names(graph: TypedGraph) -> None:
    """Raise GraphError for a type or an attribute with a slash in its name: DGL splits ``type/attribute`` there."""
    tables: tuple[Mapping[Any, Attributes], ...] = (graph.node_data, graph.edge_data)
    attributes = [name for table in tables for arrays in table.values() for name in arrays]
    for name in (*graph.schema.node_types, *map(str, graph.schema.relations), *attributes):
        if "/" in name:
            raise GraphError(
                f"{name!r} has a slash, at which DGL splits names of types and attributes: rename the type or attribute"
            )


def typed_graph(graph: Graph) -> TypedGraph:
    """A graph of the harness with its attributes under DGL's usual names.

    Edges of a typed graph are numbered within their relation, in the order of their ids.
    """
    if graph.schema is None:
        kind, relation = HOMOGENEOUS.node_types[0], HOMOGENEOUS.relations[0]
        edge_data = {"weight": graph.edge_weights, "type": graph.edge_types, "feat": graph.edge_features}
        return TypedGraph(
            graph.name,
            HOMOGENEOUS,
            {kind: graph.nodes},
            {relation: CsrEdges(graph.csr)},
            {kind: node_attributes(graph, slice(0, graph.nodes))},
            {relation: {name: array for name, array in edge_data.items() if array is not None}},
            graph.sha256,
        )
    return _typed(graph, graph.schema)


def _typed(graph: Graph, schema: Schema) -> TypedGraph:
    assert graph.node_types is not None and graph.edge_types is not None
    bounds = np.searchsorted(graph.node_types, np.arange(len(schema.node_types) + 1))
    spans = {kind: slice(*bounds[i : i + 2].tolist()) for i, kind in enumerate(schema.node_types)}
    edges: dict[Relation, RelationEdges] = {}
    edge_data: dict[Relation, Attributes] = {}
    for number, relation in enumerate(schema.relations):
        rows = np.flatnonzero(graph.edge_types == number)
        rows = rows[np.argsort(graph.csr.ids[rows], kind="stable")]
        edges[relation] = ArrayEdges(
            graph.csr.indices[rows] - spans[relation.source].start,
            graph.csr.destinations[rows] - spans[relation.destination].start,
        )
        arrays = {"weight": graph.edge_weights, "feat": graph.edge_features}
        edge_data[relation] = {name: array[rows] for name, array in arrays.items() if array is not None}
    return TypedGraph(
        graph.name,
        schema,
        {kind: span.stop - span.start for kind, span in spans.items()},
        edges,
        {kind: node_attributes(graph, span) for kind, span in spans.items()},
        edge_data,
        graph.sha256,
    )
