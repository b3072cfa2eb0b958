"""Loader of user tables that fit into memory: a node table and an edge table become a graph."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from datasets.edge_list import directed, undirected
from datasets.features import in_layout, layout_notes
from datasets.graph import Graph
from datasets.hashes import combined_sha256
from datasets.paths import Files, Options
from datasets.tables.columns import (
    edge_arrays,
    id_kind,
    labels_of,
    notes_of_columns,
    notes_of_labels,
    positions_of,
    require_named,
    split_of,
    types_of,
)
from datasets.tables.identity import content_sha256
from datasets.tables.options import EDGE_ROLES, NamedTableOptions, table_options
from datasets.tables.reading import read_table, table_sha256
from datasets.tables.sparse_columns import table_features
from datasets.tables.table import TableError
from datasets.tables.typed import load_typed


def load(name: str, files: Files, options: Options) -> Graph:
    """Read the tables that ``options`` name (``TableOptions``); edge ids are rows of the edge table.

    Raises ValueError for unknown options and TableError, naming file and row, for no nodes, missing columns,
    duplicate ids, dangling edges, NaN and features of another width.
    """
    if any(isinstance(options.get(role), Mapping) for role in ("nodes", "edges")):
        return load_typed(options)
    tables = table_options(options)
    node_table = read_table(tables.nodes, "nodes", ids=(tables.id,))
    require_named(tables, ("label", "split", "node_type"), [node_table])
    ids, ends = node_table.ids(tables.id), (tables.source, tables.target)
    text = ends if id_kind(ids) == "strings" else ()
    edge_table = read_table(tables.edges, "edges", text, may_be_empty=True, ids=ends)
    require_named(tables, EDGE_ROLES, [edge_table])
    sources, targets = (positions_of(node_table, ids, edge_table, column) for column in ends)
    csr, loops = (undirected if tables.undirected else directed)(sources, targets, len(ids))
    row_arrays = edge_arrays(edge_table, tables.weight, tables.edge_type, tables.edge_features)
    arrays: dict[str, Any] = {
        name: array[csr.ids % len(array)] for name, array in row_arrays.items() if array is not None
    }
    labels, classes = labels_of(node_table, tables.label)
    features = table_features(node_table, tables, tables.width)
    by_default = tables.features is None and tables.feature_columns is None
    column_notes = notes_of_columns(node_table, tables.roles) if by_default else ()
    return Graph(
        name=tables.name,
        csr=csr,
        features=None if features is None else in_layout(features, tables.layout),
        labels=labels,
        split=split_of(node_table, tables.split, labels, np.arange(len(ids))),
        classes=classes,
        task="none" if labels is None else "multiclass" if labels.ndim == 1 else "multilabel",
        node_ids=ids.to_numpy() if id_kind(ids) == "integers" else None,
        node_types=types_of(node_table, tables.node_type, "node_type"),
        **arrays,
        sha256=_sha256(tables, options),
        trust="local",
        self_loops_dropped=loops,
        notes=layout_notes(features, tables.layout) + column_notes + notes_of_labels(node_table, tables.label),
    )


def _sha256(tables: NamedTableOptions, options: Options) -> str:
    """Hash both files and the options that say how they are read; raises TableError for files that were exchanged."""
    hashes = {role: table_sha256(options[role]) for role in ("nodes", "edges")}
    if tables.sha256 and not content_sha256(**hashes).startswith(tables.sha256):
        raise TableError(f"{tables.nodes} or {tables.edges} was changed since the run began: start it again")
    return combined_sha256(
        hashes, {key: value for key, value in options.items() if key not in (*hashes, "name", "sha256")}
    )
