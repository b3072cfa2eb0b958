"""Streaming of a node table and a table of labels to the node arrays of a saved graph."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import numpy as np

from datasets.array_files import create_array
from datasets.graph import MISSING, NO_SPLIT
from datasets.tables.columns import check_kind, labels_of, require_named, split_of, types_of
from datasets.tables.id_index import IdIndex, buckets_of, keys_of
from datasets.tables.options import TableOptions
from datasets.tables.out_of_core import Buckets, GrowingArray, Progress
from datasets.tables.reading import read_batches
from datasets.tables.sparse_columns import FeatureFiles, table_features
from datasets.tables.table import TableError, UserTable, is_string

NAMES = "names.parquet"
MISSING_AT_ONCE = 1 << 16  # rows of labels


@dataclass(frozen=True)
class StreamedNodes:
    """Number of nodes, number of classes, the kind of the ids (integers or strings), and the width of the features."""

    count: int
    classes: int
    kind: str
    width: int


def write_nodes(
    tables: TableOptions, folder: Path, keys: Buckets, labelled: bool, most: int, memory: int, progress: Progress
) -> StreamedNodes:
    """Write features, types, labels and splits batch by batch, and partition (key, node number) into ``keys``.

    ``most`` bounds the number of rows, ``memory`` the bytes of a batch of them.
    """
    files: dict[str, GrowingArray] = {}
    count, classes, kind = 0, 0, ""
    names, features = _NameFile(folder / NAMES), FeatureFiles(folder)
    for table in read_batches(tables.nodes, "node", memory, progress, ids=(tables.id,)):
        require_named(tables, ("node_type",), [table])
        ids, kind = keys_of(table, tables.id)
        keys.append(buckets_of(ids, len(keys.paths)), ids, np.arange(count, count + table.rows))
        arrays: dict[str, Any] = {
            "node_types": types_of(table, tables.node_type, "node_type"),
        }
        if (values := table_features(table, tables, tables.width)) is not None:
            features.append(table, values)
        if kind == "strings":
            names.append(count, table.column(tables.id))
        else:
            arrays["node_ids"] = ids
        if labelled:
            arrays["labels"], batch_classes = labels_of(_numeric(table, tables.label), tables.label)
            numbers = np.arange(count, count + table.rows)
            arrays["split"] = split_of(table, tables.split, arrays["labels"], numbers)
            arrays["labels"] = _with_missing(arrays["labels"], files, folder, count)
            classes = max(classes, batch_classes)
        append_arrays(files, folder, table, arrays)
        count += table.rows
        progress("rows of nodes", count, most)
    names.close()
    features.close(tables.layout)
    for file in files.values():
        file.close()
    return StreamedNodes(count, classes, kind, features.width)


def _with_missing(labels: Any, files: dict[str, GrowingArray], folder: Path, rows_before: int) -> Any:
    """Labels of a batch in as many columns as others have, also where it, or all ``rows_before``, have empty lists."""
    if labels is not None and labels.shape[1:] == (0,):
        row_shape = files["labels"].row_shape if "labels" in files else None
        return None if row_shape is None else np.full((len(labels), *row_shape), MISSING, labels.dtype)
    if labels is not None and rows_before and "labels" not in files:
        files["labels"] = GrowingArray(folder / "labels.npy")
        for first in range(0, rows_before, MISSING_AT_ONCE):
            rows = min(MISSING_AT_ONCE, rows_before - first)
            files["labels"].append(np.full((rows, *labels.shape[1:]), MISSING, labels.dtype))
    return labels


def append_arrays(files: dict[str, GrowingArray], folder: Path, table: UserTable, arrays: dict[str, Any]) -> None:
    """Append the arrays of a batch to the files of their names; raises TableError for rows of another width."""
    for name, values in arrays.items():
        if values is not None:
            if name not in files:
                files[name] = GrowingArray(folder / f"{name}.npy")
            else:
                _refuse_other_width(table, name, values.shape[1:], files[name].row_shape)
            files[name].append(values)


def _refuse_other_width(table: UserTable, name: str, row_shape: tuple[int, ...], before: tuple[int, ...]) -> None:
    if row_shape != before:
        raise TableError(
            f"{table.path}: row {table.first + 1}: {row_shape} values for {name}, but {before} in the rows before: "
            "every row needs as many"
        )


def write_labels(tables: TableOptions, folder: Path, index: IdIndex, path: str, count: int, memory: int) -> int:
    """Write labels and splits from their own table; nodes without a row there have none. Returns the classes."""
    labels: Any = None
    split = create_array(folder / "split.npy", np.int8, (count,))
    split[:] = NO_SPLIT
    classes, labelled = 0, np.zeros(count, dtype=bool)
    text = (tables.id,) if index.kind == "strings" else ()
    for table in read_batches(path, "label", memory, text=text, ids=(tables.id,)):
        values, batch_classes = labels_of(_numeric(table, tables.label), tables.label)
        if values is None:
            table.column(str(tables.label))  # raises TableError with the existing columns
        assert values is not None
        require_named(tables, ("split",), [table])
        has_columns = values.shape[1:] != (0,)  # else all lists of this batch are empty
        if labels is None and has_columns:
            labels = create_array(folder / "labels.npy", values.dtype, (count, *values.shape[1:]))
            labels[:] = MISSING
        elif has_columns:
            _refuse_other_width(table, "labels", values.shape[1:], labels.shape[1:])
        nodes = _label_rows(tables, table, index, labelled)
        splits = split_of(table, tables.split, values, nodes)
        classes = max(classes, batch_classes)
        if has_columns:
            labels[nodes] = values
        split[nodes] = NO_SPLIT if splits is None else splits
    return classes


def _label_rows(tables: TableOptions, table: UserTable, index: IdIndex, labelled: Any) -> Any:
    """Return the node number of each row and mark it in ``labelled``; raises TableError for unknown, repeated ids."""
    keys, kind = keys_of(table, tables.id)
    check_kind(table, tables.id, kind, tables.nodes, index.kind)
    nodes, unknown = np.empty(table.rows, dtype=np.int64), np.zeros(table.rows, dtype=bool)
    buckets = buckets_of(keys, index.buckets)
    for bucket in np.unique(buckets).tolist():
        rows = np.flatnonzero(buckets == bucket)
        nodes[rows], unknown[rows] = index.find(bucket, keys[rows])
    table.refuse(tables.id, unknown, f"no node has this id in {tables.nodes}: add it there or remove this row")
    repeated = labelled[nodes]
    repeated[np.setdiff1d(np.arange(table.rows), np.unique(nodes, return_index=True)[1])] = True
    table.refuse(tables.id, repeated, "this id appeared before: give each node one row")
    labelled[nodes] = True
    return nodes


def _numeric(table: UserTable, label: str | list[str]) -> UserTable:
    """Refuse classes given as words: to number them, all of them must be in memory at once."""
    if isinstance(label, str) and table.has(label):
        kind = table.kind(label)
        if is_string(kind):
            raise TableError(
                f"{table.path}: column {label!r} holds {kind}: give classes as numbers from 0, or lists of 0/1"
            )
    return table


class _NameFile:
    """A Parquet file of the columns ``id``, the number of a node, and ``name``, its id in the user's tables."""

    def __init__(self, path: Path) -> None:
        self.path, self.writer = path, cast(Any, None)

    def append(self, first: int, names: Any) -> None:
        """Append the names of nodes numbered from ``first``."""
        import pyarrow as pa
        from pyarrow import parquet

        rows = pa.table({"id": np.arange(first, first + len(names)), "name": names.cast(pa.large_string())})
        self.writer = self.writer or parquet.ParquetWriter(self.path, rows.schema)
        self.writer.write_table(rows)

    def close(self) -> None:
        """Write the footer; without names there is no file."""
        if self.writer is not None:
            self.writer.close()
