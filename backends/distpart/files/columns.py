"""Arrays in several files, one after the other: NumPy files are mapped, text and Parquet is turned into them first."""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from tokenize import TokenError
from typing import Any

import numpy as np
from numpy.typing import NDArray

from backends.distpart.typed_graph import GraphError, rows_at_once
from datasets.array_files import save_pieces
from datasets.files import atomic_file
from datasets.tables.out_of_core import GrowingArray


@dataclass(frozen=True)
class FileColumn:
    """Rows of NumPy files as one array; ``names`` are the files that the user gave, in the same order."""

    files: tuple[Path, ...]
    names: tuple[str, ...]

    @cached_property
    def _arrays(self) -> list[NDArray[Any]]:
        arrays = [mapped(file, name) for file, name in zip(self.files, self.names, strict=True)]
        filled = [i for i, array in enumerate(arrays) if len(array)] or [0]  # an empty text says nothing of its type
        first = arrays[filled[0]]
        for i in filled:
            if (arrays[i].dtype, arrays[i].shape[1:]) != (first.dtype, first.shape[1:]):
                raise GraphError(
                    f"{self.names[i]} has rows of {arrays[i].dtype} {list(arrays[i].shape[1:])}, "
                    f"{self.names[filled[0]]} of {first.dtype} {list(first.shape[1:])}: all chunks must have one type"
                )
        return [array if len(array) else first[:0] for array in arrays]

    def __getstate__(self) -> dict[str, Any]:
        """The names alone: another process maps the files itself."""
        return {"files": self.files, "names": self.names}

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Take over what ``__getstate__`` returned."""
        self.__dict__.update(state)

    @cached_property
    def _starts(self) -> NDArray[np.int64]:
        return np.cumsum([0, *map(len, self._arrays)])

    @property
    def dtype(self) -> np.dtype[Any]:
        """Type of all rows."""
        return self._arrays[0].dtype

    @property
    def shape(self) -> tuple[int, ...]:
        """Rows of all files, and the shape of a row."""
        return (len(self), *self._arrays[0].shape[1:])

    def __len__(self) -> int:
        return int(self._starts[-1])

    def stamp(self) -> list[list[int]]:
        """Size and modification time of each file that the user gave."""
        stats = [Path(name).stat() for name in self.names]
        return [[stat.st_size, stat.st_mtime_ns] for stat in stats]

    def lengths(self) -> list[int]:
        """Rows of each file."""
        return [len(array) for array in self._arrays]

    def __getitem__(self, rows: slice | NDArray[np.integer]) -> NDArray[Any]:
        """Copy rows, given as a slice of step 1 or by ascending numbers."""
        numbers = np.arange(*rows.indices(len(self))) if isinstance(rows, slice) else rows
        cuts = np.searchsorted(numbers, self._starts)
        pieces = [
            array[numbers[cuts[i] : cuts[i + 1]] - self._starts[i]]
            for i, array in enumerate(self._arrays)
            if cuts[i + 1] > cuts[i]
        ]
        out: NDArray[Any] = np.concatenate(pieces) if pieces else np.empty((0, *self.shape[1:]), self.dtype)
        return out


def mapped(file: Path, name: str) -> NDArray[Any]:
    """Map a NumPy file of numbers, which messages call ``name``; raises GraphError where it is none."""
    try:
        array: NDArray[Any] = np.lib.format.open_memmap(file, mode="r")
    except FileNotFoundError as error:
        raise GraphError(f"{name} does not exist") from error
    except (ValueError, EOFError, OverflowError, TypeError, TokenError, SyntaxError) as error:
        raise GraphError(f"{name} is no NumPy file, or cut: {error}") from error
    if array.ndim == 0 or array.dtype.kind not in "iufb":
        raise GraphError(f"{name} has {array.dtype} {list(array.shape)}: rows of numbers are needed")
    return array


@dataclass(frozen=True)
class RowType:
    """Type of the numbers of text, and shape of a row of text or Parquet; ``None`` where nothing says it."""

    dtype: np.dtype[Any] | None = None
    shape: tuple[int, ...] | None = None


def as_numpy(paths: Sequence[Path], form: str, delimiter: str, folder: Path, row: RowType) -> tuple[Path, ...]:
    """Turn text or Parquet tables of one array into NumPy files of their rows in ``folder``; returns those files.

    NumPy files are returned as they are. Text has numbers of the row's type, by default of int64 if all of them are
    integers and of float64 else. Raises GraphError naming the file, and the row where the reader knows it.
    """
    if form == "numpy":
        return tuple(paths)
    if form not in ("csv", "parquet"):
        raise GraphError(f"{paths[0]} has the format {form!r}: csv, numpy and parquet are read")
    for path in paths:
        if not path.exists():
            raise GraphError(f"{path} does not exist")
    folder.mkdir(parents=True, exist_ok=True)
    targets = tuple(folder / f"{number}.npy" for number in range(len(paths)))

    def save(dtype: np.dtype[Any] | None) -> tuple[Path, ...]:
        for path, target in zip(paths, targets, strict=True):
            batches = _parquet_batches(path) if form == "parquet" else _text_batches(path, delimiter, dtype)
            with atomic_file(target) as temporary:
                _save(path, batches, temporary, RowType(dtype, row.shape))
        return targets

    if form == "parquet":
        return save(None)
    if row.dtype is None:
        try:
            return save(np.dtype(np.int64))
        except GraphError:
            return save(np.dtype(np.float64))
    return save(row.dtype)


def _save(path: Path, batches: Any, target: Path, row: RowType) -> None:
    """Append batches of rows to a NumPy file whose length is known at the end."""
    import pyarrow

    out = GrowingArray(target)
    try:
        for batch in batches:
            piece = _matrix(path, batch, out.rows)
            if row.shape is not None:
                if piece.shape[1] != np.prod(row.shape, dtype=np.int64):
                    raise GraphError(f"{path} has {piece.shape[1]} numbers in a row, its shape is {list(row.shape)}")
                piece = piece.reshape(len(piece), *row.shape)
            out.append(piece if row.dtype is None else piece.astype(row.dtype, copy=False))
    except pyarrow.ArrowException as error:
        raise GraphError(f"{path} cannot be read as rows of numbers: {error}") from error
    finally:
        out.close()


def _matrix(path: Path, batch: Any, first: int) -> NDArray[Any]:
    columns = []
    for number, column in enumerate(batch.columns):
        if column.null_count:
            row = first + int(np.flatnonzero(np.asarray(column.is_null()))[0])
            raise GraphError(f"{path}: row {row} has nothing in column {number}")
        values = column.to_numpy(zero_copy_only=False)
        if values.dtype.kind not in "iufb":
            raise GraphError(f"{path}: column {number} has {column.type}: numbers are needed")
        columns.append(values.astype(plain(values.dtype), copy=False))
    return np.ascontiguousarray(np.stack(columns, axis=1))


def plain(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """The type that text and Parquet have for a NumPy type: bytes for truth values, the machine's order of bytes."""
    return np.dtype(np.uint8) if dtype.kind == "b" else dtype.newbyteorder("=")


def _text_batches(path: Path, delimiter: str, dtype: np.dtype[Any] | None) -> Iterator[Any]:
    import pyarrow
    from pyarrow import csv

    if path.stat().st_size:
        options = csv.ReadOptions(autogenerate_column_names=True, use_threads=False)
        parse = csv.ParseOptions(delimiter=delimiter)
        with csv.open_csv(path, options, parse) as reader:
            names = reader.schema.names
        kind = pyarrow.float32() if dtype == np.float16 else pyarrow.from_numpy_dtype(dtype)  # Arrow reads no halves
        convert = csv.ConvertOptions(column_types=dict.fromkeys(names, kind), null_values=[""])  # NaN is a number
        yield from csv.open_csv(path, options, parse, convert)


def _parquet_batches(path: Path) -> Iterator[Any]:
    from pyarrow import parquet

    yield from parquet.ParquetFile(path).iter_batches()


@dataclass(frozen=True)
class RowSource:
    """Rows of an array that is written: ``read(start, stop)`` returns some, each of a type and shape [...]."""

    dtype: np.dtype[Any]
    shape: tuple[int, ...]
    read: Callable[[int, int], NDArray[Any]]

    def pieces(self, start: int, stop: int) -> Iterator[NDArray[Any]]:
        """Some rows, in pieces of ``MOST_ROW_BYTES``."""
        length = rows_at_once(np.empty((0, *self.shape), self.dtype))
        return (self.read(first, min(first + length, stop)) for first in range(start, stop, length))


def write_column(folder: Path, name: str, counts: Sequence[int], form: str, rows: RowSource) -> list[str]:
    """Write an array in files of so many rows each, a piece at a time; returns the names of the files."""
    endings = {"numpy": "npy", "csv": "txt", "parquet": "parquet"}
    folder.mkdir(parents=True, exist_ok=True)
    names, start = [], 0
    for number, count in enumerate(counts):
        path, pieces = folder / f"{name}{number}.{endings[form]}", rows.pieces(start, start + count)
        if form == "numpy":
            save_pieces(path, rows.dtype, (count, *rows.shape), pieces)
        else:
            _write_table(path, form, rows, pieces)
        names.append(path.name)
        start += count
    return names


def _write_table(path: Path, form: str, rows: RowSource, pieces: Iterator[NDArray[Any]]) -> None:
    """Write rows as a table with a column for each number of a row."""
    import pyarrow
    from pyarrow import csv, parquet

    width = math.prod(rows.shape)

    def table(piece: NDArray[Any]) -> Any:
        flat = piece.reshape(len(piece), width).astype(plain(piece.dtype), copy=False)
        return pyarrow.table({f"f{column}": flat[:, column] for column in range(width)})

    schema = table(np.empty((0, *rows.shape), rows.dtype)).schema
    if form == "parquet":
        writer = parquet.ParquetWriter(path, schema)
    else:
        options = csv.WriteOptions(include_header=False, delimiter=" ")
        writer = csv.CSVWriter(path, schema, write_options=options)
    with writer:
        for piece in pieces:
            writer.write_table(table(piece))
