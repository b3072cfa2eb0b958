"""Features of nodes as compressed sparse rows, and the choice between them and a dense array."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from datasets.csr import Csr, index_dtype
from datasets.options import OptionError, unknown_name

LAYOUTS = ("auto", "dense", "sparse")
SPARSE_SHARE = 0.1  # of entries set, below which features are stored sparse
SPARSE_WIDTH = 64  # columns from which on that pays
ENTRIES_AT_ONCE = 1 << 22  # that are compared to find those of a column


@dataclass(frozen=True, eq=False)
class SparseFeatures:
    """Features [nodes, width] of which few are set: ``csr`` has their columns, ``values`` float32 [nnz] their values.

    Columns of a row ascend, each at most once. Indexing by nodes copies rows; nothing turns them dense but ``dense``.
    """

    csr: Csr
    values: NDArray[np.float32]

    @property
    def shape(self) -> tuple[int, int]:
        """Nodes and columns."""
        return self.csr.shape

    @property
    def dtype(self) -> np.dtype[np.float32]:
        """Type of the values."""
        return self.values.dtype

    @property
    def arrays(self) -> tuple[NDArray[Any], NDArray[Any], NDArray[np.float32]]:
        """Row starts, columns and values."""
        return self.csr.indptr, self.csr.indices, self.values

    @property
    def nbytes(self) -> int:
        """Bytes of the three arrays."""
        return sum(int(array.nbytes) for array in self.arrays)

    @property
    def size(self) -> int:
        """Entries, set or not."""
        return self.shape[0] * self.shape[1]

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, nodes: NDArray[np.integer] | slice) -> "SparseFeatures":
        """Copy the rows of ``nodes``, in their order."""
        numbers = np.arange(len(self))[nodes] if isinstance(nodes, slice) else np.asarray(nodes)
        rows, positions = self.csr.rows(np.flatnonzero(numbers) if numbers.dtype == bool else numbers)
        return SparseFeatures(Csr(rows.indptr, rows.indices, rows.shape), self.values[positions])

    def __array__(self, *_: Any, **__: Any) -> NDArray[Any]:
        raise TypeError(
            f"sparse features {list(self.shape)} do not turn into an array of {self.size * 4 / 2**20:.0f} MiB by "
            "themselves: call .dense(), or set dataset.options.features=dense"
        )

    def column(self, number: int) -> NDArray[np.float32]:
        """One column of all nodes, float32 [nodes]."""
        out, indptr = np.zeros(len(self), dtype=np.float32), self.csr.indptr
        for start in range(0, self.csr.nnz, ENTRIES_AT_ONCE):
            places = start + np.flatnonzero(self.csr.indices[start : start + ENTRIES_AT_ONCE] == number)
            rows = np.searchsorted(indptr, places.astype(indptr.dtype), side="right") - 1
            out[rows] = self.values[places]
        return out

    def dense(self) -> NDArray[np.float32]:
        """All entries, float32 [nodes, width]."""
        out = np.zeros(self.shape, dtype=np.float32)
        out[self.csr.destinations, self.csr.indices] = self.values
        return out


Features = NDArray[np.float32] | SparseFeatures


def sparse_features(
    rows: NDArray[np.integer], columns: NDArray[np.integer], values: NDArray[np.floating], shape: tuple[int, int]
) -> SparseFeatures:
    """Sort entries by row and column and sum those of one place, as SciPy does; raises ValueError outside ``shape``."""
    for name, numbers, bound in (("row", rows, shape[0]), ("column", columns, shape[1])):
        wrong = np.flatnonzero((numbers < 0) | (numbers >= bound))
        if len(wrong):
            at = f"entry {wrong[0]} has {name} {numbers[wrong[0]]}"
            raise ValueError(f"features: {at}: allowed are 0 to {bound - 1}")
    refuse_not_finite(rows, columns, values)
    places = rows.astype(np.int64) * shape[1] + columns
    if (places[1:] <= places[:-1]).any():
        order = np.argsort(places, kind="stable")
        rows, columns, values = rows[order], columns[order], values[order]
    first = np.ones(len(rows), dtype=bool)
    first[1:] = (rows[1:] != rows[:-1]) | (columns[1:] != columns[:-1])
    starts = np.flatnonzero(first)
    sums = np.add.reduceat(values, starts) if len(starts) else values
    counts = np.bincount(rows[first], minlength=shape[0])
    kind = index_dtype(max(*shape, len(starts), 1))
    indptr = np.concatenate(([0], np.cumsum(counts))).astype(kind)
    return SparseFeatures(Csr(indptr, columns[first].astype(kind), shape), sums.astype(np.float32))


def refuse_not_finite(rows: NDArray[np.integer], columns: NDArray[np.integer], values: NDArray[np.floating]) -> None:
    """Raise ValueError with the row and the column of a value that is NaN or infinite."""
    wrong = np.flatnonzero(~np.isfinite(values))
    if len(wrong):
        row, column = rows[wrong[0]], columns[wrong[0]]
        raise ValueError(f"features: row {row}, column {column} is {values[wrong[0]]}: give a finite number")


def in_layout(features: Features, layout: str) -> Features:
    """Return features as ``dense`` or ``sparse``; ``auto``: sparse where less than 10 % of 64 or more columns are set.

    Raises OptionError for an unknown layout.
    """
    if layout not in LAYOUTS:
        raise OptionError(unknown_name("dataset.options.features", layout, LAYOUTS))
    is_sparse = isinstance(features, SparseFeatures)
    if layout == "auto":
        layout = "sparse" if features.shape[1] >= SPARSE_WIDTH and share_set(features) < SPARSE_SHARE else "dense"
    if layout == "dense":
        return features.dense() if isinstance(features, SparseFeatures) else features
    return features if is_sparse else _compressed(np.asarray(features))


def layout_notes(features: Features | None, layout: str) -> tuple[str, ...]:
    """Notes on a layout that was asked for though the other one is better."""
    if features is None or layout == "auto":
        return ()
    share, few = share_set(features), features.shape[1] >= SPARSE_WIDTH and share_set(features) < SPARSE_SHARE
    if (layout == "sparse") == few:
        return ()
    other = "dense" if layout == "sparse" else "sparse"
    return (f"features: {layout} as asked, {share:.1%} of them are set; {other} ones take less time and memory",)


def share_set(features: Features) -> float:
    """Share of the entries that are set; 0 where there are none."""
    stored = features.csr.nnz if isinstance(features, SparseFeatures) else np.count_nonzero(features)
    return stored / features.size if features.size else 0.0


def root_mean_square(features: Features) -> float:
    """Root of the mean square of all entries, set or not; 1 where there are none."""
    values = features.values if isinstance(features, SparseFeatures) else features
    return float(np.sqrt(np.sum(np.square(values, dtype=np.float64)) / features.size)) if features.size else 1.0


def dense_features(features: Features, why: str) -> NDArray[np.float32]:
    """Return features as an array for ``why``, an engine's reason; float32, the array itself where it is dense.

    Raises MemoryError naming the reason and the size.
    """
    if not isinstance(features, SparseFeatures):
        return np.asarray(features, dtype=np.float32)
    try:
        return features.dense()
    except MemoryError as error:
        size = features.size * 4 / 2**30
        raise MemoryError(f"{why} needs dense features of {size:.1f} GiB: set is {share_set(features):.1%}") from error


def _compressed(features: NDArray[np.float32]) -> SparseFeatures:
    """The entries of an array that are not 0."""
    rows, columns = np.nonzero(features)
    values: NDArray[np.float32] = features[rows, columns]
    kind = index_dtype(max(*features.shape, len(rows), 1))
    indptr = np.concatenate(([0], np.cumsum(np.bincount(rows, minlength=features.shape[0])))).astype(kind)
    return SparseFeatures(Csr(indptr, columns.astype(kind), features.shape), values.astype(np.float32))
