"""Graphs of your own: a node table and an edge table, Parquet or CSV, on any path that fsspec opens."""

import hashlib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, fields
from importlib import import_module
from typing import IO, Any

import numpy as np

from datasets.graph import Graph
from datasets.paths import Files, Options, combined_sha256
from datasets.rows import directed, undirected
from datasets.table_columns import (
    Table,
    TableError,
    edge_arrays,
    features_of,
    labels_of,
    positions_of,
    split_of,
    types_of,
)

READ_AT_ONCE = 1 << 20
ROWS_AT_ONCE = 1 << 17
ENDINGS = (".parquet", ".pq", ".csv")


@dataclass(frozen=True)
class TableOptions:
    """Paths and column names of user tables.

    ``features`` are numeric columns or one column of lists; ``None`` takes every numeric or list column of the node
    table that has no other role; ``edge_features`` takes the named columns of the edge table. ``label``, ``split``,
    ``weight``, ``node_type`` and ``edge_type`` are read where the column exists; ``label`` may be a column of classes,
    a column of 0/1 lists or several 0/1 columns. ``width`` is the expected number of features.
    """

    nodes: str = ""
    edges: str = ""
    id: str = "id"
    source: str = "source"
    target: str = "target"
    features: str | list[str] | None = None
    label: str | list[str] = "label"
    split: str = "split"
    weight: str = "weight"
    node_type: str = "type"
    edge_type: str = "type"
    edge_features: str | list[str] | None = None
    width: int | None = None
    undirected: bool = False

    @property
    def roles(self) -> set[str]:
        """Columns of the node table that are no features unless they are named."""
        return {self.id, self.split, self.node_type, *([self.label] if isinstance(self.label, str) else self.label)}


def load(name: str, files: Files, options: Options) -> Graph:
    """Read the tables that ``options`` name (``TableOptions``); edge ids are rows of the edge table.

    Raises ValueError for unknown options and TableError, naming file and row, for empty tables, missing columns,
    duplicate ids, dangling edges, NaN and features of another width.
    """
    given = _options(options)
    node_table, edge_table = _read(given.nodes, "nodes"), _read(given.edges, "edges")
    ids = node_table.values(given.id)
    sources, targets = (positions_of(node_table, ids, edge_table, column) for column in (given.source, given.target))
    csr, loops = (undirected if given.undirected else directed)(sources, targets, len(ids))
    of_edges = edge_arrays(edge_table, given.weight, given.edge_type, given.edge_features)
    arrays: dict[str, Any] = {name: held[csr.ids % len(held)] for name, held in of_edges.items() if held is not None}
    labels, classes = labels_of(node_table, given.label)
    task = "none" if labels is None else "multiclass" if labels.ndim == 1 else "multilabel"
    return Graph(
        name=name,
        csr=csr,
        features=features_of(node_table, given.features, given.roles, given.width),
        labels=labels,
        split=split_of(node_table, given.split),
        classes=classes,
        task=task,
        node_ids=ids.astype(np.int64) if np.issubdtype(ids.dtype, np.integer) else None,
        node_types=types_of(node_table, given.node_type),
        **arrays,
        sha256=_sha256(given, options),
        trust="local",
        self_loops_dropped=loops,
    )


def _options(options: Options) -> TableOptions:
    allowed = [item.name for item in fields(TableOptions)]
    for option in options:
        if option not in allowed:
            raise ValueError(f"option of data set tables {option!r} is unknown: allowed are {', '.join(allowed)}")
    given = TableOptions(**options)
    for role in ("nodes", "edges"):
        if not getattr(given, role):
            raise ValueError(f"data set tables needs a {role} table: dataset.options.{role}=PATH (.parquet or .csv)")
    return given


@contextmanager
def _open(path: str) -> Iterator[IO[bytes]]:
    try:
        opened = import_module("fsspec").open(path, "rb")
    except (ImportError, ValueError) as error:  # a file system whose package is not installed, or that nobody knows
        raise TableError(f"{path}: {error}") from error
    with opened as handle:
        yield handle


def _read(path: str, role: str) -> Table:
    import pyarrow
    from pyarrow import csv, parquet

    in_order = csv.ReadOptions(use_threads=False)  # only then do its errors name the row
    readers = {
        ".parquet": parquet.read_table,
        ".pq": parquet.read_table,
        ".csv": lambda handle: csv.read_csv(handle, in_order),
    }
    ending = _ending(path, role)
    try:
        with _open(path) as handle:
            table = Table(path, readers[ending](handle))
    except (pyarrow.ArrowException, OSError) as error:
        raise _unreadable(path, error) from error
    if not table.rows:
        raise TableError(f"{path}: the {role} table has no rows")
    return table


def _unreadable(where: str, error: Exception) -> Exception:
    """Say which file Arrow cannot read; errors of the file system, which have a number, name it themselves."""
    if getattr(error, "errno", None) is not None:
        return error
    return TableError(f"{where}: {'does not exist' if isinstance(error, FileNotFoundError) else error}")


def _ending(path: str, role: str) -> str:
    """Kind of a table; of a chained path such as ``zip://nodes.csv::archive.zip`` that of its first link."""
    for ending in ENDINGS:
        if path.partition("::")[0].endswith(ending):
            return ending
    raise TableError(f"{path}: the {role} table must end with one of {', '.join(ENDINGS)}")


def batches(path: str, role: str) -> Iterator[Table]:
    """Yield a table in pieces of some rows, which know where they start; raises TableError if there are none."""
    import pyarrow
    from pyarrow import csv, parquet

    ending = _ending(path, role)
    first = 0
    try:
        with _open(path) as handle:
            pieces = (
                csv.open_csv(handle, csv.ReadOptions(use_threads=False))
                if ending == ".csv"
                else parquet.ParquetFile(handle).iter_batches(ROWS_AT_ONCE)
            )
            for piece in pieces:
                if piece.num_rows:
                    yield Table(path, pyarrow.Table.from_batches([piece]), first)
                first += piece.num_rows
    except (pyarrow.ArrowException, OSError) as error:
        raise _unreadable(f"{path}: after row {first}", error) from error
    if not first:
        raise TableError(f"{path}: the {role} table has no rows")


def sha256_of(given: TableOptions, more: Iterable[str] = ()) -> str:
    """Hash the files and every option but their paths."""
    options = {item.name: getattr(given, item.name) for item in fields(given)}
    hashes = {f"table {place}": _sha256_of(path) for place, path in enumerate((given.nodes, given.edges, *more))}
    return combined_sha256(hashes, {key: value for key, value in options.items() if key not in ("nodes", "edges")})


def _sha256(given: TableOptions, options: Options) -> str:
    """Hash both files and every option but their paths."""
    hashes = {role: _sha256_of(getattr(given, role)) for role in ("nodes", "edges")}
    return combined_sha256(hashes, {key: value for key, value in options.items() if key not in hashes})


def _sha256_of(path: str) -> str:
    digest = hashlib.sha256()
    with _open(path) as handle:
        while block := handle.read(READ_AT_ONCE):
            digest.update(block)
    return digest.hexdigest()
