"""User tables with a file for each node type and each relation, as one typed graph."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from datasets.csr import csr_from_edges
from datasets.graph import MISSING, NO_SPLIT, Graph
from datasets.hashes import combined_sha256
from datasets.options import OptionError, options_from
from datasets.paths import Options
from datasets.schema import Relation, Schema
from datasets.tables.columns import (
    LISTED,
    default_features,
    features_of,
    id_kind,
    label_words,
    labels_of,
    notes_of_columns,
    positions_of,
    require_named,
    split_of,
    weights_of,
    word_names,
)
from datasets.tables.identity import files_of
from datasets.tables.reading import read_table, table_sha256
from datasets.tables.table import TableError, UserTable


@dataclass(frozen=True)
class TypedTableOptions:
    """``nodes``: the path of the table of each node type; ``edges``: of each relation, ``source:name:destination``.

    Types and relations are numbered in the order of their names. Columns are named as for tables without types; ids
    need to differ within a type only.
    """

    nodes: Mapping[str, str] = field(default_factory=dict)
    edges: Mapping[str, str] = field(default_factory=dict)
    id: str = "id"
    source: str = "source"
    target: str = "target"
    label: str = "label"
    split: str = "split"
    weight: str = "weight"
    name: str = "tables"
    sha256: str = ""


def load_typed(options: Options) -> Graph:
    """Read all tables; features and weights are kept where all types have them alike, else a note says so.

    Raises TableError as the loader of tables without types, and ValueError for a relation between unknown types.
    """
    tables = options_from(TypedTableOptions, "tables", options)
    for role in ("nodes", "edges"):
        if not isinstance(getattr(tables, role), Mapping) or not getattr(tables, role):
            raise OptionError(f"data set tables: {role} must name a table for each type, as nodes does for {options}")
    # in the order of their names: a key of options does not tell mappings in another order apart
    tables = replace(tables, nodes=_by_name(tables.nodes), edges=_by_name(tables.edges))
    schema = Schema(tuple(map(str, tables.nodes)), tuple(Relation.parse(str(text)) for text in tables.edges))
    node_tables = {str(kind): read_table(str(path), "nodes", ids=(tables.id,)) for kind, path in tables.nodes.items()}
    require_named(tables, ("label", "split"), list(node_tables.values()))
    names = _label_names(list(node_tables.values()), tables.label)
    nodes = {kind: _Nodes.of(table, tables, names) for kind, table in node_tables.items()}
    starts = dict(zip(nodes, np.cumsum([0, *(len(own.ids) for own in nodes.values())]).tolist(), strict=False))
    total = sum(len(own.ids) for own in nodes.values())
    sources, destinations, kinds, weights = [], [], [], []
    for number, (relation, path) in enumerate(zip(schema.relations, tables.edges.values(), strict=True)):
        is_text = (id_kind(nodes[kind].ids) == "strings" for kind in (relation.source, relation.destination))
        columns = (tables.source, tables.target)
        as_text = [name for name, text in zip(columns, is_text, strict=True) if text]
        table = read_table(str(path), "edges", as_text, may_be_empty=True, ids=columns)
        ends = [
            positions_of(nodes[kind].table, nodes[kind].ids, table, column) + starts[kind]
            for kind, column in zip((relation.source, relation.destination), columns, strict=True)
        ]
        sources.append(ends[0])
        destinations.append(ends[1])
        kinds.append(np.full(table.rows, number, dtype=np.int32))
        weights.append(weights_of(table, tables.weight))
    if all(weight is None for weight in weights):
        require_named(tables, ("weight",), [table])
    source, destination = np.concatenate(sources), np.concatenate(destinations)
    no_loops = np.flatnonzero(source != destination)
    csr = csr_from_edges(source[no_loops], destination[no_loops], (total, total), no_loops)
    features, notes = _alike([own.features for own in nodes.values()], "features")
    weight, weight_notes = _alike(weights, "weights of edges")
    labels, classes = _labels(list(nodes.values()))
    return Graph(
        name=tables.name,
        csr=csr,
        features=features,
        labels=labels,
        split=np.concatenate([own.split for own in nodes.values()]) if labels is not None else None,
        classes=classes,
        task="none" if labels is None else "multiclass",
        node_types=np.repeat(np.arange(len(nodes), dtype=np.int32), [len(own.ids) for own in nodes.values()]),
        edge_types=np.concatenate(kinds)[csr.ids],
        edge_weights=None if weight is None else weight[csr.ids],
        schema=schema,
        sha256=_sha256(tables, options),
        trust="local",
        self_loops_dropped=len(source) - len(no_loops),
        notes=tuple(_notes_of_nodes(node_tables, _roles(tables), features is not None) + notes + weight_notes),
    )


def _by_name(paths: Mapping[Any, str]) -> dict[str, str]:
    return {str(name): paths[name] for name in sorted(paths, key=str)}


@dataclass(frozen=True)
class _Nodes:
    table: UserTable
    ids: Any
    features: NDArray[np.float32] | None
    labels: NDArray[np.integer] | None
    classes: int
    split: NDArray[np.int8]

    @classmethod
    def of(cls, table: UserTable, tables: TypedTableOptions, names: Sequence[str] | None) -> "_Nodes":
        """Read the columns of a type; ``names`` are the classes of all types, where these are words."""
        ids = table.ids(tables.id)
        labels, classes = labels_of(table, tables.label, names)
        if labels is not None and labels.ndim > 1:
            raise TableError(
                f"{table.path}: {tables.label} has several labels per node: with types a node has one class"
            )
        split = split_of(table, tables.split, labels, np.arange(len(ids)))
        features = features_of(table, None, _roles(tables), None)
        split = np.full(len(ids), NO_SPLIT, dtype=np.int8) if split is None else split
        return cls(table, ids, features, labels, classes, split)


def _roles(tables: TypedTableOptions) -> set[str]:
    return {tables.id, tables.label, tables.split}


def _notes_of_nodes(tables: Mapping[str, UserTable], roles: set[str], joined: bool) -> list[str]:
    """Notes on columns of each type that are no features, and on those of other names, if features are ``joined``."""
    notes = [f"{kind}: {note}" for kind, table in tables.items() for note in notes_of_columns(table, roles)]
    names = {kind: default_features(table, roles) for kind, table in tables.items()}
    if joined and len({tuple(own) for own in names.values()}) > 1:
        listed = "; ".join(f"{kind}: {', '.join(own[:LISTED])}" for kind, own in names.items())
        notes.append(
            f"features: columns in the same place are one feature of all types, though their names differ ({listed})"
        )
    return notes


def _label_names(tables: Sequence[UserTable], label: str) -> list[str] | None:
    """The words that are labels in any table, ascending; ``None`` where there are none, TableError beside numbers."""
    import pyarrow.types as types

    labelled = [table for table in tables if table.has(label) and not types.is_null(table.kind(label))]
    columns = [label_words(table, label) for table in labelled]
    words = [column for column in columns if column is not None]
    if not words:
        return None
    for table, column in zip(labelled, columns, strict=True):
        if column is None:
            kind = table.kind(label)
            raise TableError(f"{table.path}: column {label!r} holds {kind}, other types have words: give all alike")
    return word_names(words)


def _alike(arrays: list[Any], what: str) -> tuple[Any, list[str]]:
    """All arrays as one, ``None`` with a note where not all types have them alike."""
    if all(array is None for array in arrays):
        return None, []
    if any(array is None for array in arrays) or len({array.shape[1:] for array in arrays}) > 1:
        return None, [f"{what}: left out, as not all types have them alike"]
    return np.concatenate(arrays), []


def _labels(nodes: list[_Nodes]) -> tuple[NDArray[np.int64] | None, int]:
    """Classes of the types that have labels; nodes of others have none."""
    if all(own.labels is None for own in nodes):
        return None, 0
    pieces = [np.full(len(own.ids), MISSING) if own.labels is None else own.labels for own in nodes]
    return np.concatenate(pieces).astype(np.int64), max(own.classes for own in nodes)


def _sha256(tables: TypedTableOptions, options: Options) -> str:
    """Hash all files and the options that say how they are read; raises TableError for files that were exchanged."""
    hashes = {role: table_sha256(path) for role, path in files_of(options).items()}
    if tables.sha256 and not combined_sha256(hashes).startswith(tables.sha256):
        raise TableError("a table was changed since the run began: start it again")
    read = {key: value for key, value in options.items() if key not in ("nodes", "edges", "name", "sha256")}
    return combined_sha256(hashes, read)
