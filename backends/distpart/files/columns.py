"""Arrays in several files, one after the other: NumPy files are mapped, text and Parquet is turned into them first."""

import math
from ast import literal_eval
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
    integers and of float64 else; Parquet has rows of the shape that DGL's tools store, by default one for each column.
    Raises GraphError naming the file, and the row where the reader knows it.
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

    if form == "parquet":
        for path, target in zip(paths, targets, strict=True):
            with atomic_file(target) as temporary:
                shape = _stored_shape(path) if row.shape is None else row.shape
                _save(path, _parquet_batches(path), temporary, RowType(None, shape))
        return targets

    def save(dtype: np.dtype[Any]) -> tuple[Path, ...]:
        for path, target in zip(paths, targets, strict=True):
            with atomic_file(target) as temporary:
                _save(path, _text_batches(path, delimiter, dtype), temporary, RowType(dtype, row.shape))
        return targets

    if row.dtype is None:
        try:
            return save(np.dtype(np.int64))
        except GraphError:
            return save(np.dtype(np.float64))
    return save(row.dtype)


def _save(path: Path, batches: Any, target: Path, row: RowType) -> None:
    """Append batches of rows to a NumPy file whose length is known at the end."""
    import pyarrow

    out, width = GrowingArray(target), 0
    try:
        for batch in batches:
            piece = _matrix(path, batch, out.rows)
            if out.rows and piece.shape[1] != width:  # lists of another batch
                raise GraphError(f"{path}: row {out.rows} has {piece.shape[1]} numbers, those before have {width}")
            width = piece.shape[1]
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
    """The numbers of a batch, [rows, columns]; ``first`` is the number of its first row."""
    if len(batch.columns) == 1 and _has_lists(batch.column(0).type):
        return _matrix_of_lists(path, batch.column(0), first)
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


def _has_lists(kind: Any) -> bool:
    from pyarrow import types

    return bool(types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind))


def _matrix_of_lists(path: Path, lists: Any, first: int) -> NDArray[Any]:
    """The numbers of a table whose only column has a list for each row, as Spark writes vectors."""
    from pyarrow import compute

    lengths = compute.fill_null(compute.list_value_length(lists), -1).to_numpy(zero_copy_only=False)
    width = int(lengths[0]) if len(lengths) else 0
    wrong = np.flatnonzero((lengths != width) | (lengths < 0))
    if len(wrong):
        row, length = first + int(wrong[0]), max(int(lengths[wrong[0]]), 0)
        raise GraphError(f"{path}: row {row} has {length} numbers: each row needs a list, as long as the first one")
    numbers = lists.flatten()
    if numbers.null_count:
        place = int(np.flatnonzero(np.asarray(numbers.is_null()))[0])
        raise GraphError(f"{path}: row {first + place // width} has nothing in column {place % width}")
    values = numbers.to_numpy(zero_copy_only=False)
    if values.dtype.kind not in "iufb":
        raise GraphError(f"{path} has lists of {numbers.type}: numbers are needed")
    return values.astype(plain(values.dtype), copy=False).reshape(len(lists), width)


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

    file = parquet.ParquetFile(path)
    yield from file.iter_batches(batch_size=rows_at_once(np.empty((0, _numbers_of_row(file.metadata)))))


def _numbers_of_row(metadata: Any) -> int:
    """How many numbers a row of a Parquet file has, of which lists have several in one column."""
    if not metadata.num_row_groups or not (rows := metadata.row_group(0).num_rows):
        return int(metadata.num_columns)
    group = metadata.row_group(0)
    return -(-sum(group.column(column).num_values for column in range(group.num_columns)) // rows)


def _stored_shape(path: Path) -> tuple[int, ...] | None:
    """The shape of a row in the metadata of a Parquet file, where DGL's tools write that of all rows, or ``None``."""
    import pyarrow
    from pyarrow import parquet

    try:
        text = (parquet.read_schema(path).metadata or {}).get(b"shape")
    except pyarrow.ArrowException as error:
        raise GraphError(f"{path} cannot be read as rows of numbers: {error}") from error
    if text is None:
        return None
    try:
        shape = literal_eval(text.decode())
    except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
        shape = None
    if not isinstance(shape, tuple | list) or not shape or not all(type(size) is int and size >= 0 for size in shape):
        raise GraphError(f"{path} says shape={text!r}: the sizes of all its rows are needed, such as (100, 2, 3)")
    return tuple(shape[1:])


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
