"""Arrays larger than memory: ``.npy`` files that grow by rows, and rows partitioned into bucket files."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from io import BytesIO
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

HEADER = 128
BYTES_PER_ROW = 128  # of a bucket's edge while it is sorted
Progress = Callable[[str, int, int], None]


def silent(step: str, done: int, total: int) -> None:
    """A progress callback that shows nothing."""


class GrowingArray:
    """A ``.npy`` file to which rows are appended; ``close`` writes its shape into the header."""

    def __init__(self, path: Path) -> None:
        self.file: IO[bytes] = path.open("wb")
        self.file.write(bytes(HEADER))
        self.rows, self.row_shape, self.dtype = 0, (), np.dtype(np.float32)

    def append(self, values: NDArray[Any]) -> None:
        """Append rows, all of one type and width."""
        self.row_shape, self.dtype = values.shape[1:], values.dtype
        self.rows += len(values)
        self.file.write(np.ascontiguousarray(values).data)

    def close(self) -> None:
        """Write the header and close the file."""
        header = BytesIO()
        shape = {"descr": self.dtype.str, "fortran_order": False, "shape": (self.rows, *self.row_shape)}
        np.lib.format.write_array_header_1_0(header, shape)
        if len(header.getvalue()) != HEADER:
            raise ValueError(f"a header of {len(header.getvalue())} bytes does not fit into {HEADER}")
        self.file.seek(0)
        self.file.write(header.getvalue())
        self.file.close()


class Buckets:
    """Rows of int64 columns, partitioned into files by a number."""

    def __init__(self, folder: Path, name: str, count: int, columns: int) -> None:
        self.paths = [folder / f"{name}-{number}.bin" for number in range(count)]
        self.columns, self.stack = columns, ExitStack()
        self.files = [self.stack.enter_context(path.open("wb")) for path in self.paths]

    def append(self, numbers: NDArray[np.integer], *columns: NDArray[np.integer]) -> None:
        """Append row i of the columns to bucket ``numbers[i]``; rows keep their order."""
        order = np.argsort(numbers, kind="stable")
        rows = np.stack([np.asarray(column, dtype=np.int64)[order] for column in columns], axis=1)
        cuts = np.searchsorted(numbers[order], np.arange(len(self.paths) + 1))
        for file, first, last in zip(self.files, cuts[:-1], cuts[1:], strict=True):
            if last > first:
                file.write(rows[first:last].data)

    def close(self) -> None:
        """Close the files: those of other buckets may then be opened in their place."""
        self.stack.close()

    def drain(self) -> Iterator[NDArray[np.int64]]:
        """Yield the rows of each bucket, [rows, columns], and delete its file."""
        self.stack.close()
        for path in self.paths:
            yield np.fromfile(path, dtype=np.int64).reshape(-1, self.columns)
            path.unlink()

    def pieces(self, most: int) -> Iterator[tuple[int, NDArray[np.int64]]]:
        """Yield the number and at most ``most`` rows of each bucket, for those too large for ``drain``."""
        self.close()
        for number, path in enumerate(self.paths):
            for rows in rows_in_pieces(path, self.columns, most):
                yield number, rows


def rows_in_pieces(path: Path, columns: int, most: int) -> Iterator[NDArray[np.int64]]:
    """Yield the rows of a bucket's file in their order, at most ``most`` at once, and delete the file."""
    numbers = path.stat().st_size // np.dtype(np.int64).itemsize
    with path.open("rb") as file:
        for first in range(0, numbers, most * columns):
            count = min(most * columns, numbers - first)
            yield np.fromfile(file, dtype=np.int64, count=count).reshape(-1, columns)
    path.unlink()
