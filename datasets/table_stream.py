"""User tables of any size as a graph on disk: read in pieces, joined in buckets, never held whole in memory.

Writes what ``datasets.tables`` returns, as ``Graph.save`` does. The ends of an edge find their numbers in three passes
over buckets: by the id of the source, by the id of the destination, by the number of the destination.
"""

import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import numpy as np
from numpy.lib.format import open_memmap
from numpy.typing import NDArray

from datasets.buckets import Buckets, GrowingArray
from datasets.csr import Csr, index_dtype
from datasets.graph import MISSING, NO_SPLIT, Graph
from datasets.table_columns import Table, TableError, Values, edge_arrays, features_of, labels_of, split_of, types_of
from datasets.tables import TableOptions, batches, sha256_of

BUCKETS = 16
NAMES = "names.parquet"
_HASHED = "string"


@dataclass(frozen=True)
class _Nodes:
    count: int
    classes: int
    kind: str


def stream(given: TableOptions, folder: Path, label_table: str | None = None, buckets: int = BUCKETS) -> Graph:
    """Write the graph of user tables into the empty ``folder`` and map it.

    ``label_table`` holds id, label and split of some nodes instead of the node table. Ids that are strings are left
    in ``names.parquet`` by number of their node. Memory is that of one of ``buckets`` parts of the nodes or edges, or
    of the rows read at once. Raises TableError naming file and row.
    """
    work = folder / "buckets"
    work.mkdir(parents=True)
    ids = Buckets(work, "ids", buckets, 2)
    nodes = _write_nodes(given, folder, ids, labelled=label_table is None)
    index = _write_index(ids, work, given.nodes, nodes.kind)
    classes = nodes.classes if label_table is None else _write_labels(given, folder, index, label_table, nodes)
    loops = _write_edges(given, folder, work, index, nodes)
    shutil.rmtree(work)
    return _finished(given, folder, nodes, classes, loops, label_table)


def _write_nodes(given: TableOptions, folder: Path, ids: Buckets, labelled: bool) -> _Nodes:
    """Write features, labels and splits as they come, and deal (id, row) to buckets of ids."""
    files: dict[str, GrowingArray] = {}
    rows, classes, kind = 0, 0, ""
    names = _Names(folder / NAMES)
    for table in batches(given.nodes, "node"):
        keys, kind = _keys(table, given.id)
        ids.deal(keys % len(ids.paths), keys, np.arange(rows, rows + table.rows))
        held: dict[str, Any] = {
            "features": features_of(table, given.features, given.roles, given.width),
            "node_types": types_of(table, given.node_type),
        }
        if kind == _HASHED:
            names.append(rows, table.column(given.id))
        else:
            held["node_ids"] = keys
        if labelled:
            held["labels"], some = labels_of(_numeric(table, given.label), given.label)
            held["split"] = split_of(table, given.split)
            classes = max(classes, some)
        _append(files, folder, table, held)
        rows += table.rows
    names.close()
    for file in files.values():
        file.close()
    return _Nodes(rows, classes, kind)


def _append(files: dict[str, GrowingArray], folder: Path, table: Table, held: dict[str, Any]) -> None:
    """Add what is known of a table's rows to the files of their names."""
    for name, values in held.items():
        if values is not None:
            if name not in files:
                files[name] = GrowingArray(folder / f"{name}.npy")
            elif files[name].row_shape != values.shape[1:]:
                wide = f"{values.shape[1:]} values for {name}, but {files[name].row_shape} before"
                raise TableError(f"{table.path}: row {table.first + 1}: {wide}")
            files[name].append(values)


class _Names:
    """A Parquet file of ``id``, the number of a node, and ``name``, the string that the user calls it by."""

    def __init__(self, path: Path) -> None:
        self.path, self.writer = path, cast(Any, None)

    def append(self, first: int, names: Any) -> None:
        """Add the names of nodes numbered from ``first``."""
        import pyarrow as pa
        from pyarrow import parquet

        rows = pa.table({"id": np.arange(first, first + len(names)), "name": names.cast(pa.large_string())})
        self.writer = self.writer or parquet.ParquetWriter(self.path, rows.schema)
        self.writer.write_table(rows)

    def close(self) -> None:
        """Make it whole; there is no file where nodes have no names."""
        if self.writer is not None:
            self.writer.close()


def _numeric(table: Table, label: str | list[str]) -> Table:
    """Refuse labels that are words: their numbers would need all of them at once."""
    import pyarrow.types as types

    if isinstance(label, str) and table.has(label):
        kind = table.column(label).type
        if types.is_string(kind) or types.is_large_string(kind):
            raise TableError(
                f"{table.path}: column {label!r} holds {kind}: give classes as numbers from 0, or lists of 0/1"
            )
    return table


def _keys(table: Table, column: str) -> tuple[NDArray[np.int64], str]:
    """Ids as they are, or hashes of ids that are strings; and which of the two."""
    values: Values = table.values(column)
    if values.dtype.kind != "U":
        return values, "integer"
    from pandas.util import hash_array

    return hash_array(values.astype(object)).view(np.int64), _HASHED


def _write_index(ids: Buckets, work: Path, path: str, kind: str) -> list[Path]:
    """Sort (id, row) of each bucket; raises TableError for an id that appears twice."""
    index = []
    for number, held in enumerate(ids.drain()):
        ordered = held[np.lexsort((held[:, 1], held[:, 0]))]
        again = np.flatnonzero(ordered[1:, 0] == ordered[:-1, 0]) + 1
        if len(again):
            first = again[np.argmin(ordered[again, 1])]
            raise TableError(
                f"{path}: row {ordered[first, 1] + 1}: id{_shown(ordered[first, 0], kind)} appeared before"
            )
        index.append(work / f"index-{number}.npy")
        np.save(index[-1], ordered)
    return index


def _shown(key: Any, kind: str) -> str:
    """An id for an error, where it is not a hash."""
    return "" if kind == _HASHED else f" {key}"


def _numbers(index: Path, keys: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """Numbers of the nodes with some ids of one bucket, and which of the ids no node has."""
    known = np.load(index)
    if not len(known):
        return np.zeros(len(keys), dtype=np.int64), np.ones(len(keys), dtype=bool)
    places = np.minimum(np.searchsorted(known[:, 0], keys), len(known) - 1)
    return known[places, 1], known[places, 0] != keys


def _write_labels(given: TableOptions, folder: Path, index: list[Path], path: str, nodes: _Nodes) -> int:
    """Write labels and splits from their own table; nodes without a row there have none. Returns the classes."""
    labels: Any = None
    split = open_memmap(folder / "split.npy", "w+", np.int8, (nodes.count,))
    split[:] = NO_SPLIT
    classes, seen = 0, np.zeros(nodes.count, dtype=bool)
    for table in batches(path, "label"):
        values, some = labels_of(_numeric(table, given.label), given.label)
        if values is None:
            table.column(str(given.label))
        assert values is not None
        if labels is None:
            labels = open_memmap(folder / "labels.npy", "w+", values.dtype, (nodes.count, *values.shape[1:]))
            labels[:] = MISSING
        keys, kind = _keys(table, given.id)
        _same_kind(table, given.id, kind, nodes, given)
        classes, splits, bucket = max(classes, some), split_of(table, given.split), keys % len(index)
        for number in np.unique(bucket).tolist():
            rows = np.flatnonzero(bucket == number)
            found, unknown = _numbers(index[number], keys[rows])
            table.refuse(
                given.id, np.isin(np.arange(table.rows), rows[unknown]), f"no node has this id in {given.nodes}"
            )
            again = seen[found]
            again[np.setdiff1d(np.arange(len(found)), np.unique(found, return_index=True)[1])] = True
            table.refuse(given.id, np.isin(np.arange(table.rows), rows[again]), "this id appeared before")
            seen[found] = True
            labels[found] = values[rows]
            split[found] = NO_SPLIT if splits is None else splits[rows]
    return classes


def _same_kind(table: Table, column: str, kind: str, nodes: _Nodes, given: TableOptions) -> None:
    if kind != nodes.kind:
        raise TableError(
            f"{table.path}: column {column!r} holds {kind}s, but the ids of {given.nodes} are {nodes.kind}s"
        )


def _write_edges(given: TableOptions, folder: Path, work: Path, index: list[Path], nodes: _Nodes) -> int:
    """Number both ends of every edge and write the CSR by ranges of destinations; returns the self loops dropped."""
    count = len(index)
    by_source = Buckets(work, "by-source", count, 3)
    known: dict[str, GrowingArray] = {}
    rows = 0
    for table in batches(given.edges, "edge"):
        (sources, kind), (targets, other) = _keys(table, given.source), _keys(table, given.target)
        for column, found in ((given.source, kind), (given.target, other)):
            _same_kind(table, column, found, nodes, given)
        by_source.deal(sources % count, targets, sources, np.arange(rows, rows + table.rows))
        _append(known, work, table, edge_arrays(table, given.weight, given.edge_type, given.edge_features))
        rows += table.rows
    for file in known.values():
        file.close()
    by_target = Buckets(work, "by-target", count, 3)
    for number, held in enumerate(by_source.drain()):
        sources = _known(index[number], held[:, 1], held[:, 2], given, given.source, nodes.kind)
        by_target.deal(held[:, 0] % count, sources, held[:, 0], held[:, 2])
    by_range, loops = Buckets(work, "by-range", count, 3), 0
    for number, held in enumerate(by_target.drain()):
        targets = _known(index[number], held[:, 1], held[:, 2], given, given.target, nodes.kind)
        loops += _deal_edges(by_range, held[:, 0], targets, held[:, 2], nodes.count, rows if given.undirected else None)
    raw = {name: np.load(work / f"{name}.npy", mmap_mode="r") for name in known}
    _write_csr(folder, by_range, nodes.count, rows * (2 if given.undirected else 1), raw)
    return loops


def _known(index: Path, keys: Values, rows: Values, given: TableOptions, column: str, kind: str) -> NDArray[np.int64]:
    numbers, unknown = _numbers(index, keys)
    if unknown.any():
        first = np.flatnonzero(unknown)[rows[unknown].argmin()]
        where = f"{given.edges}: row {rows[first] + 1}, column {column!r}"
        raise TableError(f"{where}: no node has the id{_shown(keys[first], kind)} in {given.nodes}")
    return numbers


def _deal_edges(
    by_range: Buckets, sources: Values, targets: Values, rows: Values, nodes: int, again: int | None
) -> int:
    """Deal edges, and their reverse with ids from ``again``, by destination; returns the self loops dropped."""
    kept = sources != targets
    sources, targets, rows = sources[kept], targets[kept], rows[kept]
    by_range.deal(targets * len(by_range.paths) // nodes, targets, sources, rows)
    if again is not None:
        by_range.deal(sources * len(by_range.paths) // nodes, sources, targets, rows + again)
    return int((~kept).sum())


def _write_csr(folder: Path, by_range: Buckets, nodes: int, largest: int, known: dict[str, Any]) -> None:
    dtype = index_dtype(max(nodes, largest, 1))
    files = {name: GrowingArray(folder / f"{name}.npy") for name in ("indptr", "indices", "edge_ids", *known)}
    files["indptr"].append(np.zeros(1, dtype=dtype))
    total, parts = 0, len(by_range.paths)
    for number, held in enumerate(by_range.drain()):
        first, last = -(-number * nodes // parts), -(-(number + 1) * nodes // parts)
        held = held[np.lexsort((held[:, 2], held[:, 1], held[:, 0]))]
        ends = np.cumsum(np.bincount(held[:, 0] - first, minlength=last - first)) + total
        total += len(held)
        files["indptr"].append(ends.astype(dtype))
        files["indices"].append(held[:, 1].astype(dtype))
        files["edge_ids"].append(held[:, 2].astype(index_dtype(largest)))
        for name, values in known.items():
            files[name].append(values[held[:, 2] % len(values)])
    for file in files.values():
        file.close()


def _finished(
    given: TableOptions, folder: Path, nodes: _Nodes, classes: int, loops: int, label_table: str | None
) -> Graph:
    """Map the arrays that were written and write what ``Graph.load`` reads."""
    arrays = {path.stem: np.load(path, mmap_mode="r") for path in sorted(folder.glob("*.npy"))}
    labels = arrays.get("labels")
    csr = Csr(arrays.pop("indptr"), arrays.pop("indices"), (nodes.count, nodes.count), arrays.pop("edge_ids"))
    graph = Graph(
        name="tables",
        csr=csr,
        classes=classes,
        task="none" if labels is None else "multiclass" if labels.ndim == 1 else "multilabel",
        sha256=sha256_of(given, () if label_table is None else (label_table,)),
        trust="local",
        self_loops_dropped=loops,
        **arrays,
    )
    graph.save_facts(folder)
    return Graph.load(folder)
