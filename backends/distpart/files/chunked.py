"""DGL's chunked graphs: ``metadata.json`` beside edges and attributes in files, read and written without DGL."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from backends.distpart.files.columns import FileColumn, as_numpy, write_column
from backends.distpart.files.json_file import read_object
from backends.distpart.typed_graph import ArrayEdges, Attributes, GraphError, Ids, RelationEdges, TypedGraph
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


def read_chunked(folder: Path, workspace: Path) -> TypedGraph:
    """Open a chunked graph; text and Parquet files are turned into NumPy files in ``workspace``.

    Counts may stand per chunk (``num_nodes_per_chunk``) or per type (``num_nodes_per_type``), for edges alike. Raises
    GraphError naming the file, and the row where there is one.
    """
    path = folder / METADATA
    facts = read_object(path)
    reader = _Reader(path, facts, workspace)
    schema = Schema(tuple(reader.fact("node_type")), tuple(Relation.parse(kind) for kind in reader.fact("edge_type")))
    edges: dict[Relation, RelationEdges] = {}
    for relation, sizes in zip(schema.relations, reader.sizes("edges", "edge_type"), strict=True):
        column = reader.column(reader.fact("edges").get(str(relation)), sizes, f"edges of {relation}")
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

    def fact(self, name: str) -> Any:
        if name not in self.facts:
            raise GraphError(f"{self.path} has no {name}")
        return self.facts[name]

    def sizes(self, what: str, kinds: str) -> list[list[int]]:
        """Counts of each type, in one number or one per chunk."""
        per_chunk, per_type = (self.facts.get(f"num_{what}_per_{unit}") for unit in ("chunk", "type"))
        counts = per_chunk if per_chunk is not None else per_type
        if counts is None:
            raise GraphError(f"{self.path} has neither num_{what}_per_chunk nor num_{what}_per_type")
        sizes = [count if isinstance(count, list) else [count] for count in counts]
        if len(sizes) != len(self.fact(kinds)):
            raise GraphError(f"{self.path} counts {what} of {len(sizes)} types, {kinds} names {len(self.fact(kinds))}")
        for kind, chunks in zip(self.fact(kinds), sizes, strict=True):
            if not all(type(size) is int and size >= 0 for size in chunks):
                raise GraphError(f"{self.path} counts {what} of {kind} as {chunks}: whole numbers from 0 on are needed")
        return sizes

    def column(self, entry: Any, sizes: list[int] | None, what: str) -> FileColumn:
        """The files of an entry as one array; raises GraphError where their rows are not those that are counted."""
        if not isinstance(entry, Mapping) or not entry.get("data"):
            raise GraphError(f"{self.path} names no files for {what}")
        form = entry.get("format", {})
        paths = [self.path.parent / name for name in entry["data"]]
        files = tuple(
            as_numpy(
                file,
                form.get("name", "numpy"),
                form.get("delimiter", " "),
                self.workspace / f"{what}-{i}.npy".replace("/", "-"),
            )
            for i, file in enumerate(paths)
        )
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
        entries = self.facts.get(table, {}).get(kind, {})
        return {name: self.column(entry, None, f"{kind}-{name}") for name, entry in entries.items()}


def write_chunked(graph: TypedGraph, folder: Path, chunks: int, form: str = "numpy", edge_form: str = "csv") -> None:
    """Write a graph in ``chunks`` files per array, whole or not at all; counts stand per chunk and per type.

    Raises ValueError for a folder that exists and for an unknown format.
    """
    if folder.exists():
        raise ValueError(f"{folder} exists: choose another folder")
    for name in (form, edge_form):
        if name not in FORMATS:
            raise ValueError(f"format {name!r} is not allowed: one of {', '.join(FORMATS)}")
    if chunks < 1:
        raise ValueError(f"chunks={chunks} must be at least 1")
    with atomic_folder(folder) as temporary:
        (temporary / METADATA).write_text(json.dumps(_write_all(graph, temporary, chunks, form, edge_form), indent=1))


def _write_all(graph: TypedGraph, folder: Path, chunks: int, form: str, edge_form: str) -> dict[str, Any]:
    nodes = {kind: _even(count, chunks) for kind, count in graph.nodes.items()}
    edges = {relation: _even(graph.edges[relation].count, chunks) for relation in graph.schema.relations}
    formats: dict[str, Any] = {name: {"name": name} for name in FORMATS}
    formats["csv"]["delimiter"] = " "

    def ends(relation: Relation) -> Any:
        return lambda start, stop: np.stack(graph.edges[relation].read(start, stop), axis=1)

    def rows_of(array: Any) -> Any:
        def read(start: int, stop: int) -> Any:
            piece = array[start:stop]
            return piece.dense() if isinstance(piece, SparseFeatures) else np.asarray(piece)

        return read

    def table(name: str, kinds: Mapping[Any, Attributes], sizes: Mapping[Any, list[int]]) -> dict[str, Any]:
        return {
            str(kind): {
                attribute: {
                    "format": formats[form],
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
                "data": _placed("edge_index", folder, str(relation), edges[relation], edge_form, ends(relation)),
            }
            for relation in graph.schema.relations
        },
        "node_data": table("node_data", graph.node_data, nodes),
        "edge_data": table("edge_data", graph.edge_data, edges),
    }


def _placed(place: str, folder: Path, name: str, sizes: list[int], form: str, read: Any) -> list[str]:
    return [f"{place}/{file}" for file in write_column(folder / place, name, sizes, form, read)]


def _even(count: int, chunks: int) -> list[int]:
    return [count // chunks + (number < count % chunks) for number in range(chunks)]
