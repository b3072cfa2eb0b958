"""Text parts of ``dglpart`` (ours or ParMETIS's) become the files that DGL loads (DGL's ``convert_partition.py``)."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from backends.distpart.dglpart import STATS
from backends.distpart.dispatch.job import DispatchJob, DispatchOptions
from backends.distpart.dispatch.numbering import Numbering
from backends.distpart.files.json_file import read_object
from backends.distpart.files.text_rows import TextRows, attributes_of, read_rows
from backends.distpart.typed_graph import ArrayEdges, Attributes, GraphError, RelationEdges, TypedGraph
from datasets.schema import Relation, Schema
from datasets.tables.out_of_core import Progress, silent

PART_EDGES = ("src_id", "dst_id", "orig_src_id", "orig_dst_id", "orig_type_edge_id", "edge_type")
REMOVED_EDGES = ("src_id", "dst_id", "type_edge_id", "edge_type")


@dataclass(frozen=True)
class ConvertOptions:
    """Where the parts lie, what they hold, and the types of the attributes that are to be stored."""

    folder: Path
    name: str
    schema: Path
    parts: int
    weights: int
    node_dtype: str | None = None
    edge_dtype: str | None = None
    removed_edges: Path | None = None


def convert(options: ConvertOptions, target: Path, dispatch: DispatchOptions, progress: Progress = silent) -> Path:
    """Write DGL's files of all parts, with the new ids that the text has; returns the path of the JSON.

    Edges that were removed before partitioning come back, each to the part of its destination; they have no
    attributes in their file but those behind its four columns. Raises GraphError naming file and row.
    """
    kinds, relations = read_schema(options.schema)
    nodes = _read_nodes(options, kinds)
    edges = _read_edges(options, nodes)
    names, sizes = tuple(kinds), [end - start for start, end in kinds.values()]
    starts = np.cumsum([0, *sizes])
    schema, lists, edge_data = _relations(options, relations, names, starts, edges)
    node_data = {} if options.node_dtype is None else _node_data(options, kinds, nodes)
    graph = TypedGraph(options.name, schema, dict(zip(names, sizes, strict=True)), lists, node_data, edge_data)
    numbering = Numbering.with_ids(graph, nodes.parts, options.parts, nodes.new_ids)
    return DispatchJob(graph, numbering, target, options.name, dispatch, progress).run()


Ranges = dict[str, tuple[int, int]]


def read_schema(path: Path) -> tuple[Ranges, Ranges]:
    """Ranges of homogeneous ids by node type and by edge type; raises GraphError for gaps and overlaps."""
    schema = read_object(path)
    by_key = []
    for key in ("nid", "eid"):
        try:
            ranges = {str(kind): (int(pair[0]), int(pair[1])) for kind, pair in schema[key].items()}
        except (KeyError, TypeError, ValueError, IndexError) as error:
            raise GraphError(f"{path}: {key} must name a range [start, end) for each type: {error}") from error
        ranges = dict(sorted(ranges.items(), key=lambda item: item[1]))
        end = 0
        for kind, (start, stop) in ranges.items():
            if start != end or stop < start:
                raise GraphError(f"{path}: {key} of {kind} is [{start}, {stop}), the range before ends at {end}")
            end = stop
        by_key.append(ranges)
    return by_key[0], by_key[1]


@dataclass(frozen=True)
class _Nodes:
    """By homogeneous original id: the part, the new id, and the row of the text with its part's table."""

    parts: NDArray[np.int32]
    new_ids: NDArray[np.int64]
    places: NDArray[np.int64]  # rows of all tables, one after the other
    rest: Any


def _read_nodes(options: ConvertOptions, kinds: Ranges) -> _Nodes:
    import pyarrow

    names = ["node_id", "node_type", *(f"weight{n + 1}" for n in range(options.weights)), "orig_type_node_id"]
    total = max((end for _, end in kinds.values()), default=0)
    starts = np.array([start for start, _ in kinds.values()], dtype=np.int64)
    sizes = np.array([end - start for start, end in kinds.values()], dtype=np.int64)
    parts = np.full(total, -1, dtype=np.int32)
    new_ids, places = np.empty(total, dtype=np.int64), np.empty(total, dtype=np.int64)
    texts, before = [], 0
    for part in range(options.parts):
        path = options.folder / f"p{part:03d}-{options.name}_nodes.txt"
        rows = read_rows(path, names)
        types, ids = rows.numbers[:, 1], rows.numbers[:, -1]
        _refuse(path, (types < 0) | (types >= len(kinds)), f"has a node type beyond 0 to {len(kinds) - 1}")
        _refuse(path, (ids < 0) | (ids >= sizes[types]), "has an orig_type_node_id beyond the schema's range")
        originals = starts[types] + ids
        _refuse(path, parts[originals] >= 0, "is a node that stood before")
        parts[originals], new_ids[originals] = part, rows.numbers[:, 0]
        places[originals] = before + np.arange(len(rows))
        texts.append(rows.rest)
        before += len(rows)
    if (parts < 0).any():
        raise GraphError(f"node {int(np.argmin(parts))} of the schema is in no part: {options.parts} parts were read")
    return _Nodes(parts, new_ids, places, pyarrow.concat_arrays(texts))


@dataclass(frozen=True)
class _Edges:
    """Edges of all parts and those that come back: homogeneous original ids of both ends, id within the type, type."""

    numbers: NDArray[np.int64]
    rest: Any


def _read_edges(options: ConvertOptions, nodes: _Nodes) -> _Edges:
    import pyarrow

    pieces: list[TextRows] = []
    for part in range(options.parts):
        path = options.folder / f"p{part:03d}-{options.name}_edges.txt"
        rows = read_rows(path, PART_EDGES)
        _refuse_cut(path, len(rows), options.folder / f"p{part:03d}-{options.name}_stats.txt")
        _refuse_below_zero(path, rows)
        new, originals = rows.numbers[:, :2], rows.numbers[:, 2:4]
        beyond = (originals < 0) | (originals >= len(nodes.parts))
        _refuse(path, beyond.any(axis=1), f"names an original node beyond 0 to {len(nodes.parts) - 1}")
        _refuse(path, (nodes.new_ids[originals] != new).any(axis=1), "has new and original ids of different nodes")
        _refuse(path, nodes.parts[originals[:, 1]] != part, "has a destination that another part owns")
        pieces.append(TextRows(rows.numbers[:, 2:], rows.rest))
    if options.removed_edges is not None:
        rows = read_rows(options.removed_edges, REMOVED_EDGES)
        beyond = (rows.numbers[:, :2] < 0) | (rows.numbers[:, :2] >= len(nodes.parts))
        _refuse(options.removed_edges, beyond.any(axis=1), f"names a node beyond 0 to {len(nodes.parts) - 1}")
        _refuse_below_zero(options.removed_edges, rows)
        pieces.append(rows)
    numbers = np.concatenate([rows.numbers for rows in pieces])
    return _Edges(numbers, pyarrow.concat_arrays([rows.rest for rows in pieces]))


def _refuse_cut(path: Path, rows: int, stats: Path) -> None:
    """Raise GraphError where a part has another number of edges than its statistics say, if there are any."""
    for _, expected in read_rows(stats, STATS[:2]).numbers.tolist() if stats.exists() else []:
        if rows != expected:
            raise GraphError(f"{path} has {rows} rows, {stats.name} says {expected}: it is cut or another file")


def _refuse_below_zero(path: Path, rows: TextRows) -> None:
    _refuse(path, (rows.numbers[:, -2:] < 0).any(axis=1), "has an id or a type below 0")


def _relations(
    options: ConvertOptions, ranges: Ranges, kinds: tuple[str, ...], starts: NDArray[np.int64], edges: _Edges
) -> tuple[Schema, dict[Relation, RelationEdges], dict[Relation, Attributes]]:
    """Edges by relation, in the order of their ids; the node types of the ends are those of the edges."""
    import pyarrow

    lists: dict[Relation, RelationEdges] = {}
    data: dict[Relation, Attributes] = {}
    types = edges.numbers[:, 3]
    beyond = np.flatnonzero(types >= len(ranges))
    if len(beyond):
        raise GraphError(f"an edge has type {types[beyond[0]]}: {options.schema} names {len(ranges)} edge types")
    for number, (name, (start, end)) in enumerate(ranges.items()):
        rows = np.flatnonzero(types == number)
        rows = rows[np.argsort(edges.numbers[rows, 2], kind="stable")]
        ids = edges.numbers[rows, 2]
        if len(ids) and (ids[-1] >= end - start or (np.diff(ids) == 0).any()):
            wrong = ids[-1] if ids[-1] >= end - start else ids[np.flatnonzero(np.diff(ids) == 0)[0]]
            raise GraphError(f"edge {wrong} of {name} stands twice or is beyond the {end - start} of {options.schema}")
        relation = _relation_of(name, kinds, starts, edges.numbers[rows, :2])
        first = starts[[kinds.index(relation.source), kinds.index(relation.destination)]]
        sources, destinations = (edges.numbers[rows, :2] - first).T
        lists[relation] = ArrayEdges(sources, destinations, ids)
        if options.edge_dtype is not None:
            texts = edges.rest.take(pyarrow.array(rows))
            data[relation] = {"feat": attributes_of(texts, options.edge_dtype, f"edges of {name}")}
    _refuse_unequal(data, "edge")
    return Schema(kinds, tuple(lists)), lists, data


def _relation_of(name: str, kinds: tuple[str, ...], starts: NDArray[np.int64], ends: NDArray[np.int64]) -> Relation:
    """The relation of a name that may be canonical; raises GraphError for edges between other types."""
    end_types = [np.unique(np.searchsorted(starts, ends[:, side], side="right") - 1) for side in (0, 1)]
    if any(len(types) > 1 for types in end_types):
        raise GraphError(f"edges of {name} have ends of several node types: each edge type has one of each")
    source, destination = (kinds[int(types[0])] if len(types) else kinds[0] for types in end_types)
    if ":" not in name:
        return Relation(source, name, destination)
    relation = Relation.parse(name)
    if len(ends) and relation != Relation(source, relation.name, destination):
        raise GraphError(f"edges of {name} lead from {source} to {destination}")
    return relation


def _node_data(options: ConvertOptions, kinds: Ranges, nodes: _Nodes) -> Mapping[str, Attributes]:
    import pyarrow

    data = {}
    for kind, (start, end) in kinds.items():
        texts = nodes.rest.take(pyarrow.array(nodes.places[start:end]))
        data[kind] = {"feat": attributes_of(texts, str(options.node_dtype), f"nodes of type {kind}")}
    _refuse_unequal(data, "node")
    return data


def _refuse_unequal(data: Mapping[Any, Attributes], what: str) -> None:
    """Raise GraphError where types have another number of attributes each."""
    widths = {str(kind): arrays["feat"].shape[1] for kind, arrays in data.items() if len(arrays["feat"])}
    if len(set(widths.values())) > 1:
        listed = ", ".join(f"{kind} {width}" for kind, width in widths.items())
        raise GraphError(
            f"{what} types have another number of attributes each ({listed}): leave --{what}-attr-dtype out and store "
            "them yourself"
        )


def _refuse(path: Path, wrong: NDArray[np.bool_], why: str) -> None:
    rows = np.flatnonzero(wrong)
    if len(rows):
        raise GraphError(f"{path}: row {rows[0] + 1} {why}")
