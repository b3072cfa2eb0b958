"""Sparse features of a node table: a column of lists of column numbers, and one of lists of their values."""

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from datasets.array_files import save_array
from datasets.csr import Csr, index_dtype
from datasets.features import SPARSE_SHARE, SPARSE_WIDTH, Features, SparseFeatures, sparse_features
from datasets.tables.columns import features_of
from datasets.tables.options import TableOptions
from datasets.tables.out_of_core import GrowingArray
from datasets.tables.table import NOT_FINITE, TableError, UserTable, float32_of, is_list

ROWS_AT_ONCE = 1 << 14
MOST_COLUMNS = 1 << 31  # a larger number is a code or a hash: give its remainder
FILES = ("feature_indptr", "feature_indices", "feature_values")


def table_features(table: UserTable, tables: TableOptions, width: int | None) -> Features | None:
    """The features of a node table, or of a batch of one; ``width`` is that of the whole table, if it is known."""
    if tables.feature_columns is not None:
        return _from_lists(table, tables.feature_columns, tables.feature_values, width)
    return features_of(table, tables.features, tables.roles, width)


def _from_lists(table: UserTable, columns: str, values: str | None, width: int | None) -> SparseFeatures:
    """Sort each row's columns and sum repeated ones; raises TableError naming the row of a number that cannot be."""
    lengths, numbers = _lists(table, columns)
    rows = np.repeat(np.arange(table.rows), lengths)
    whole = numbers.astype(np.int64)
    bound = min(int(whole.max(initial=-1)) + 1, MOST_COLUMNS) if width is None else width
    wrong = (numbers != whole) | (whole < 0) | (whole >= bound)
    allowed = f"from 0 to {bound - 1}" if bound else "from 0"
    _refuse(table, columns, rows, wrong, f"a column is a whole number {allowed}")
    weights = np.ones(len(whole), dtype=np.float32)
    if values is not None:
        other_lengths, stored = _lists(table, values)
        table.refuse(values, other_lengths != lengths, f"as many values as column {columns!r} has numbers are expected")
        weights = float32_of(stored)
        _refuse(table, values, rows, ~np.isfinite(weights), NOT_FINITE)
    return sparse_features(rows, whole, weights, (table.rows, bound))


def _lists(table: UserTable, name: str) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Lengths of a column's lists, 0 for an empty cell, and their numbers one after the other."""
    import pyarrow.compute

    column = table.column(name)
    if not is_list(column.type):
        raise TableError(f"{table.path}: column {name!r} holds {column.type}: lists of numbers are expected")
    lengths = np.asarray(pyarrow.compute.list_value_length(column).fill_null(0)).astype(np.int64)
    return lengths, table.doubles(name, column.flatten())


def _refuse(table: UserTable, name: str, rows: NDArray[np.int64], wrong: NDArray[np.bool_], problem: str) -> None:
    table.refuse(name, np.bincount(rows[wrong], minlength=table.rows) > 0, problem)


class FeatureFiles:
    """The files of features that are written batch by batch: one dense array, or the three of sparse rows."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.width = folder, 0
        self.dense: GrowingArray | None = None
        self.sparse: tuple[GrowingArray, GrowingArray] | None = None
        self.counts: list[NDArray[np.int64]] = []

    def append(self, table: UserTable, features: Features) -> None:
        """Append the features of a batch; raises TableError for another width than before."""
        first = self.dense is None and self.sparse is None
        if not first and features.shape[1] != self.width:
            raise TableError(
                f"{table.path}: row {table.first + 1}: {(features.shape[1],)} values for features, but "
                f"{(self.width,)} in the rows before: every row needs as many"
            )
        self.width = features.shape[1]
        if isinstance(features, SparseFeatures):
            self._append_sparse(features)
        else:
            self.dense = self.dense or GrowingArray(self.folder / "features.npy")
            self.dense.append(features)

    def _append_sparse(self, features: SparseFeatures) -> None:
        if self.sparse is None:
            indices, values = (GrowingArray(self.folder / f"{name}.npy") for name in FILES[1:])
            self.sparse = indices, values
        self.counts.append(features.csr.in_degrees.astype(np.int64))
        self.sparse[0].append(features.csr.indices.astype(index_dtype(self.width)))
        self.sparse[1].append(features.values)

    def close(self, layout: str) -> None:
        """Write the headers; then turn dense features of which few are set sparse, as ``layout`` says."""
        if self.dense is not None:
            self.dense.close()
            if layout != "dense":
                self._compress(layout)
        if self.sparse is None:
            return
        for file in self.sparse:
            file.close()
        indptr = np.concatenate(([0], np.cumsum(np.concatenate(self.counts))))
        kind = index_dtype(max(int(indptr[-1]), self.width, len(indptr) - 1, 1))
        save_array(self.folder / f"{FILES[0]}.npy", indptr.astype(kind))
        indices = np.load(self.folder / f"{FILES[1]}.npy", mmap_mode="r")
        if indices.dtype != kind:
            widened = self.folder / "widened.npy"
            save_array(widened, indices.astype(kind))
            widened.replace(self.folder / f"{FILES[1]}.npy")

    def _compress(self, layout: str) -> None:
        """Rewrite the dense array in sparse rows, block by block, where ``layout`` or its share of set entries says."""
        path = self.folder / "features.npy"
        stored = np.load(path, mmap_mode="r")
        blocks = [stored[start : start + ROWS_AT_ONCE] for start in range(0, len(stored), ROWS_AT_ONCE)]
        few = self.width >= SPARSE_WIDTH and sum(map(np.count_nonzero, blocks)) < SPARSE_SHARE * stored.size
        if layout != "sparse" and not few:
            return
        for block in blocks:
            rows, columns = np.nonzero(block)
            self._append_sparse(sparse_features(rows, columns, block[rows, columns], block.shape))
        path.unlink()


def pop_features(arrays: dict[str, Any], nodes: int, width: int) -> None:
    """Replace the three arrays of sparse features by one entry ``features``."""
    if FILES[0] in arrays:
        indptr, indices, values = (arrays.pop(name) for name in FILES)
        arrays["features"] = SparseFeatures(Csr(indptr, indices, (nodes, width)), values)
