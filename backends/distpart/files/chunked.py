"""DGL's chunked graphs: ``metadata.json`` beside edges and attributes in files, read and written without DGL."""

import itertools
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from backends.distpart.files.columns import FileColumn, RowSource, RowType, as_numpy, plain, write_column
from backends.distpart.files.json_file import read_object
from backends.distpart.typed_graph import (
    ArrayEdges,
    Attributes,
    GraphError,
    Ids,
    RelationEdges,
    TypedGraph,
    check_names,
)
from datasets.features import SparseFeatures
from datasets.files import atomic_folder
from datasets.schema import Relation, Schema

METADATA = "metadata.json"
FORMATS = ("csv", "numpy", "parquet")


@dataclass(frozen=True)
class FileEdges:
    """Edges in files of two columns; an edge's id is its row in all of them."""

    ends: FileColumn

    @property
    def count(self) -> int:
        """Number of edges."""
        return len(self.ends)

    def read(self, start: int, stop: int) -> tuple[Ids, Ids]:
        """Sources and destinations of rows."""
        rows = self.ends[start:stop]
        return rows[:, 0].astype(np.int64), rows[:, 1].astype(np.int64)

    def original_ids(self, rows: Ids) -> Ids:
        """The rows themselves."""
        return rows

    def stamp(self) -> list[list[int]]:
        """Size and modification time of each file."""
        return self.ends.stamp()


def read_chunked(folder: Path, workspace: Path) -> TypedGraph:
    """Open a chunked graph; text and Parquet files are turned into NumPy files in ``workspace``.

    Counts may stand per chunk (``num_nodes_per_chunk``) or per type (``num_nodes_per_type``), for edges alike. Raises
    GraphError naming the file, and the row where there is one.
    """
    path = folder / METADATA
    facts = read_object(path)
    reader = _Reader(path, facts, workspace)
    relations = tuple(Relation.parse(kind) for kind in reader.names("edge_type"))
    schema = Schema(tuple(reader.names("node_type")), relations)
    edges: dict[Relation, RelationEdges] = {}
    for relation, sizes in zip(schema.relations, reader.sizes("edges", "edge_type"), strict=True):
        column = reader.column(reader.table("edges").get(str(relation)), sizes, f"edges of {relation}")
        if not len(column):
            none = np.empty(0, dtype=np.int64)
            edges[relation] = ArrayEdges(none, none)
            continue
        if column.dtype.kind not in "iu" or column.shape[1:] != (2,):
            raise GraphError(f"{column.names[0]}: edges of {relation} need two columns of integers")
        edges[relation] = FileEdges(column)
    nodes = {
        kind: sum(sizes) for kind, sizes in zip(schema.node_types, reader.sizes("nodes", "node_type"), strict=True)
    }
    node_data = {kind: reader.attributes("node_data", kind) for kind in schema.node_types}
    edge_data: dict[Relation, Attributes] = {r: reader.attributes("edge_data", str(r)) for r in schema.relations}
    return TypedGraph(str(facts.get("graph_name", folder.name)), schema, nodes, edges, node_data, edge_data)


@dataclass(frozen=True)
class _Reader:
    path: Path
    facts: Mapping[str, Any]
    workspace: Path
    numbers: Iterator[int] = field(default_factory=itertools.count)  # of the arrays, whose names may look alike

    def shaped(self, value: Any, kind: type, what: str) -> Any:
        """A value of the JSON; raises GraphError where it is no object, list or text."""
        if not isinstance(value, kind) or (kind is list and not all(isinstance(name, str) for name in value)):
            needed = {dict: "an object", list: "a list of names", str: "a text"}[kind]
            raise GraphError(f"{self.path}: {what} is {value!r}: {needed} is needed")
        return value

    def names(self, key: str) -> list[str]:
        """A list that names at least one type."""
        if key not in self.facts:
            raise GraphError(f"{self.path} has no {key}")
        names: list[str] = self.shaped(self.facts[key], list, key)
        if not names:
            raise GraphError(f"{self.path}: {key} names nothing: a graph has at least one type of nodes and of edges")
        return names

    def table(self, key: str) -> Mapping[str, Any]:
        """An object by type, empty where the JSON has none."""
        table: Mapping[str, Any] = self.shaped(self.facts.get(key, {}), dict, key)
        return table

    def sizes(self, what: str, kinds: str) -> list[list[int]]:
        """Counts of each type, in one number or one per chunk."""
        keys = [f"num_{what}_per_{unit}" for unit in ("chunk", "type")]
        key = next((key for key in keys if self.facts.get(key) is not None), None)
        if key is None:
            raise GraphError(f"{self.path} has neither {keys[0]} nor {keys[1]}")
        counts, names = self.facts[key], self.names(kinds)
        if not isinstance(counts, list):
            raise GraphError(f"{self.path}: {key} is {counts!r}: a list with counts of each type is needed")
        sizes = [count if isinstance(count, list) else [count] for count in counts]
        if len(sizes) != len(names):
            raise GraphError(f"{self.path} counts {what} of {len(sizes)} types, {kinds} names {len(names)}")
        for kind, chunks in zip(names, sizes, strict=True):
            if not all(type(size) is int and size >= 0 for size in chunks):
                raise GraphError(f"{self.path} counts {what} of {kind} as {chunks}: whole numbers from 0 on are needed")
        return sizes

    def files(self, entry: Mapping[str, Any], paths: list[Path], what: str, delimiter: str) -> tuple[Path, ...]:
        """The NumPy files of an entry, or those that its files are turned into; text has ``delimiter`` by default."""
        form = self.shaped(entry.get("format", {}), dict, f"format of {what}")
        name = self.shaped(form.get("name", "numpy"), str, f"the format's name of {what}")
        delimiter = form.get("delimiter", delimiter)
        if not isinstance(delimiter, str) or len(delimiter) != 1:
            raise GraphError(f"{self.path}: {what} has the delimiter {delimiter!r}: one character is needed")
        row = RowType() if name == "numpy" else self.row_type(entry, what)
        return as_numpy(paths, name, delimiter, self.workspace / f"array-{next(self.numbers)}", row)

    def row_type(self, entry: Mapping[str, Any], what: str) -> RowType:
        """What the JSON says of an array that its text or Parquet does not."""
        try:
            dtype = np.dtype(entry["dtype"]) if "dtype" in entry else None
        except (TypeError, ValueError) as error:
            raise GraphError(f"{self.path}: {what} has the dtype {entry['dtype']!r}: a NumPy type is needed") from error
        if dtype is not None and dtype.kind not in "iuf":
            raise GraphError(f"{self.path}: {what} has the dtype {dtype}: integers or floats are needed")
        shape = entry.get("shape")
        if shape is None:
            return RowType(dtype)
        if not isinstance(shape, list) or not all(type(size) is int and size >= 0 for size in shape):
            raise GraphError(f"{self.path}: {what} has the shape {shape!r}: a list of sizes of a row is needed")
        return RowType(dtype, tuple(shape))

    def column(self, entry: Any, sizes: list[int] | None, what: str, delimiter: str = " ") -> FileColumn:
        """The files of an entry as one array; raises GraphError where their rows are not those that are counted."""
        if not isinstance(entry, Mapping) or not entry.get("data"):
            raise GraphError(f"{self.path} names no files for {what}")
        paths = [self.path.parent / name for name in self.shaped(entry["data"], list, f"data of {what}")]
        files = self.files(entry, paths, what, delimiter)
        column = FileColumn(files, tuple(map(str, paths)))
        lengths = column.lengths()
        expected = lengths if sizes is None else sizes if len(sizes) == len(lengths) else None
        if expected is None:
            if sum(lengths) != sum(sizes or []):
                raise GraphError(
                    f"{what} have {sum(lengths)} rows in {len(lengths)} files, {self.path} counts {sum(sizes or [])}"
                )
        else:
            for name, length, size in zip(column.names, lengths, expected, strict=True):
                if length != size:
                    raise GraphError(f"{name} has {length} rows, {self.path} counts {size}: it is cut or another file")
        return column

    def attributes(self, table: str, kind: str) -> Attributes:
        """The attributes of a type, in text that DGL's tools separate by commas; they read edges by spaces."""
        entries = self.shaped(self.table(table).get(kind, {}), dict, f"{table} of {kind}")
        return {name: self.column(entry, None, f"{kind}-{name}", ",") for name, entry in entries.items()}


def write_chunked(graph: TypedGraph, folder: Path, chunks: int, form: str = "numpy", edge_form: str = "csv") -> None:
    """Write a graph in ``chunks`` files per array, whole or not at all; counts stand per chunk and per type.

    Raises ValueError for a folder that exists, for an unknown format, and for a name with a slash.
    """
    if folder.exists():
        raise ValueError(f"{folder} exists: choose another folder")
    for name in (form, edge_form):
        if name not in FORMATS:
            raise ValueError(f"format {name!r} is not allowed: one of {', '.join(FORMATS)}")
    if chunks < 1:
        raise ValueError(f"chunks={chunks} must be at least 1")
    check_names(graph)
    with atomic_folder(folder) as temporary:
        (temporary / METADATA).write_text(json.dumps(_write_all(graph, temporary, chunks, form, edge_form), indent=1))


def _write_all(graph: TypedGraph, folder: Path, chunks: int, form: str, edge_form: str) -> dict[str, Any]:
    nodes = {kind: _even(count, chunks) for kind, count in graph.nodes.items()}
    edges = {relation: _even(graph.edges[relation].count, chunks) for relation in graph.schema.relations}
    formats: dict[str, Any] = {name: {"name": name} for name in FORMATS}
    formats["csv"]["delimiter"] = " "

    def ends(relation: Relation) -> RowSource:
        edges = graph.edges[relation]
        return RowSource(np.dtype(np.int64), (2,), lambda start, stop: np.stack(edges.read(start, stop), axis=1))

    def rows_of(array: Any) -> RowSource:
        def read(start: int, stop: int) -> Any:
            if isinstance(array, SparseFeatures):
                return array[np.arange(start, stop)].dense()
            return np.asarray(array[start:stop])

        return RowSource(np.dtype(array.dtype), tuple(array.shape[1:]), read)

    def table(name: str, kinds: Mapping[Any, Attributes], sizes: Mapping[Any, list[int]]) -> dict[str, Any]:
        return {
            str(kind): {
                attribute: {
                    "format": formats[form],
                    "dtype": plain(np.dtype(array.dtype)).name,  # text does not tell float32 from integers
                    "shape": list(array.shape[1:]),
                    "data": _placed(f"{name}/{kind}", folder, f"{attribute}-", sizes[kind], form, rows_of(array)),
                }
                for attribute, array in arrays.items()
            }
            for kind, arrays in kinds.items()
        }

    return {
        "graph_name": graph.name,
        "node_type": list(graph.schema.node_types),
        "num_nodes_per_chunk": [nodes[kind] for kind in graph.schema.node_types],
        "num_nodes_per_type": [graph.nodes[kind] for kind in graph.schema.node_types],
        "edge_type": [str(relation) for relation in graph.schema.relations],
        "num_edges_per_chunk": [edges[relation] for relation in graph.schema.relations],
        "num_edges_per_type": [graph.edges[relation].count for relation in graph.schema.relations],
        "edges": {
            str(relation): {
                "format": formats[edge_form],
                "data": _placed("edge_index", folder, f"{relation}-", edges[relation], edge_form, ends(relation)),
            }
            for relation in graph.schema.relations
        },
        "node_data": table("node_data", graph.node_data, nodes),
        "edge_data": table("edge_data", graph.edge_data, edges),
    }


def _placed(place: str, folder: Path, name: str, sizes: list[int], form: str, rows: RowSource) -> list[str]:
    return [f"{place}/{file}" for file in write_column(folder / place, name, sizes, form, rows)]


def _even(count: int, chunks: int) -> list[int]:
    return [count // chunks + (number < count % chunks) for number in range(chunks)]
