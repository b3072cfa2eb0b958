"""Streaming of an edge table to the CSR of a saved graph, in three passes over buckets.

The ends of an edge are numbered in buckets by the key of the source, then of the destination; the third pass sorts
ranges of destinations into the CSR. A bucket may hold most edges, where they have few sources or destinations: it is
read and sorted in pieces.
"""

from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from datasets.csr import index_dtype
from datasets.tables.columns import check_kind, edge_arrays, require_named, unknown_id
from datasets.tables.id_index import IdIndex, buckets_of, keys_of
from datasets.tables.node_stream import append_arrays
from datasets.tables.options import EDGE_ROLES, TableOptions
from datasets.tables.out_of_core import BYTES_PER_ROW, Buckets, GrowingArray, Progress
from datasets.tables.reading import read_batches
from datasets.tables.sorting import part_of, part_span, sorted_rows
from datasets.tables.table import TableError, UserTable, Values

PIECE = 1 << 13  # rows at least: with fewer, files would hold a few rows each


def write_edges(
    tables: TableOptions,
    folder: Path,
    work: Path,
    index: IdIndex,
    nodes: int,
    most: int,
    memory: int,
    progress: Progress,
) -> int:
    """Write ``indptr``, ``indices``, ``edge_ids`` and the edge arrays; returns the number of dropped self loops.

    ``most`` bounds the number of rows, ``memory`` the bytes of a batch or piece of them.
    """
    piece = max(memory // BYTES_PER_ROW, PIECE)
    ends = (tables.source, tables.target)
    text = ends if index.kind == "strings" else ()
    batches = read_batches(tables.edges, "edge", memory, progress, text, may_be_empty=True, ids=ends)
    by_source, rows, attributes = _read_edges(
        batches, tables, work, index, lambda done: progress("rows of edges", done, most)
    )
    by_target = Buckets(work, "by-target", index.buckets, 3)
    for bucket, edges in by_source.pieces(piece):
        target_keys, source_keys, ids = edges.T
        sources = _numbers(index, bucket, source_keys, ids, tables, tables.source)
        by_target.append(buckets_of(target_keys, index.buckets), sources, target_keys, ids)
    by_target.close()
    by_range, loops = Buckets(work, "by-range", index.buckets, 3), 0
    for bucket, edges in by_target.pieces(piece):
        sources, target_keys, ids = edges.T
        targets = _numbers(index, bucket, target_keys, ids, tables, tables.target)
        loops += _append_edges(by_range, sources, targets, ids, nodes, rows if tables.undirected else None)
    by_range.close()
    row_arrays = {name: np.load(work / f"{name}.npy", mmap_mode="r") for name in attributes}
    sort = partial(progress, "sorted parts of the edges")
    _write_csr(folder, by_range.paths, nodes, rows * (2 if tables.undirected else 1), row_arrays, piece, sort)
    return loops


def _read_edges(
    batches: Iterable[UserTable], tables: TableOptions, work: Path, index: IdIndex, read: Callable[[int], None]
) -> tuple[Buckets, int, list[str]]:
    """Partition (target key, source key, row) by source and write the attributes in row order.

    Returns the closed buckets, the number of rows and the names of the attributes.
    """
    by_source = Buckets(work, "by-source", index.buckets, 3)
    files: dict[str, GrowingArray] = {}
    rows = 0
    for table in batches:
        require_named(tables, EDGE_ROLES, [table])
        (sources, source_kind), (targets, target_kind) = keys_of(table, tables.source), keys_of(table, tables.target)
        check_kind(table, tables.source, source_kind, tables.nodes, index.kind)
        check_kind(table, tables.target, target_kind, tables.nodes, index.kind)
        numbers = np.arange(rows, rows + table.rows)
        by_source.append(buckets_of(sources, index.buckets), targets, sources, numbers)
        arrays = edge_arrays(table, tables.weight, tables.edge_type, tables.edge_features)
        append_arrays(files, work, table, arrays)
        rows += table.rows
        read(rows)
    for file in files.values():
        file.close()
    by_source.close()
    return by_source, rows, list(files)


def _numbers(
    index: IdIndex, bucket: int, keys: Values, rows: Values, tables: TableOptions, column: str
) -> NDArray[np.int64]:
    """Return the node numbers of edge ends; raises TableError for the first row whose end is no node."""
    numbers, unknown = index.find(bucket, keys)
    if unknown.any():
        first = np.flatnonzero(unknown)[rows[unknown].argmin()]
        problem = unknown_id(tables.nodes, index.id_text(keys[first]) or "of this row")
        raise TableError(f"{tables.edges}: row {rows[first] + 1}, column {column!r}: {problem}")
    return numbers


def _append_edges(
    by_range: Buckets, sources: Values, targets: Values, ids: Values, nodes: int, reverse: int | None
) -> int:
    """Partition edges, and their reverse with ids from ``reverse``, by destination; returns the dropped self loops."""
    edges = sources != targets
    sources, targets, ids = sources[edges], targets[edges], ids[edges]
    ranges = len(by_range.paths)
    by_range.append(part_of(targets, (0, nodes), ranges), targets, sources, ids)
    if reverse is not None:
        by_range.append(part_of(sources, (0, nodes), ranges), sources, targets, ids + reverse)
    return int((~edges).sum())


def _write_csr(
    folder: Path,
    ranges: list[Path],
    nodes: int,
    largest: int,
    row_arrays: dict[str, Any],
    piece: int,
    written: Callable[[int, int], None],
) -> None:
    """Sort each range of destinations, at most ``piece`` edges at once, and append it to the CSR and edge arrays."""
    dtype = index_dtype(max(nodes, largest, 1))
    files = {name: GrowingArray(folder / f"{name}.npy") for name in ("indptr", "indices", "edge_ids", *row_arrays)}
    files["indptr"].append(np.zeros(1, dtype=dtype))
    total = 0
    for number, path in enumerate(ranges):
        first, last = part_span(number, (0, nodes), len(ranges))
        in_edges = np.zeros(last - first, dtype=np.int64)
        for edges in sorted_rows(path, ((first, last), (0, nodes), (0, largest)), piece):
            targets, counts = np.unique(edges[:, 0], return_counts=True)
            in_edges[targets - first] += counts
            files["indices"].append(edges[:, 1].astype(dtype))
            files["edge_ids"].append(edges[:, 2].astype(index_dtype(largest)))
            for name, values in row_arrays.items():
                files[name].append(values[edges[:, 2] % len(values)])
        ends = np.cumsum(in_edges) + total
        total += int(in_edges.sum())
        files["indptr"].append(ends.astype(dtype))
        written(number + 1, len(ranges))
    for file in files.values():
        file.close()
