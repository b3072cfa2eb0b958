"""Arrays that are larger than memory: files that grow, and rows dealt to buckets that fit one at a time."""

from collections.abc import Iterator
from contextlib import ExitStack
from io import BytesIO
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

HEADER = 128


class GrowingArray:
    """A ``.npy`` file to which rows are appended; ``close`` writes its shape."""

    def __init__(self, path: Path) -> None:
        self.file: IO[bytes] = path.open("wb")
        self.file.write(bytes(HEADER))
        self.rows, self.row_shape, self.dtype = 0, (), np.dtype(np.float32)

    def append(self, values: NDArray[Any]) -> None:
        """Add rows, all of one type and width."""
        self.row_shape, self.dtype = values.shape[1:], values.dtype
        self.rows += len(values)
        self.file.write(np.ascontiguousarray(values).data)

    def close(self) -> None:
        """Make it a whole ``.npy`` file."""
        header = BytesIO()
        shape = {"descr": self.dtype.str, "fortran_order": False, "shape": (self.rows, *self.row_shape)}
        np.lib.format.write_array_header_1_0(header, shape)
        if len(header.getvalue()) != HEADER:
            raise ValueError(f"a header of {len(header.getvalue())} bytes does not fit into {HEADER}")
        self.file.seek(0)
        self.file.write(header.getvalue())
        self.file.close()


class Buckets:
    """Rows of int64 columns, dealt to files by a number; ``close`` is enough where ``drain`` is not reached."""

    def __init__(self, folder: Path, name: str, count: int, columns: int) -> None:
        self.paths = [folder / f"{name}-{number}.bin" for number in range(count)]
        self.columns, self.stack = columns, ExitStack()
        self.files = [self.stack.enter_context(path.open("wb")) for path in self.paths]

    def deal(self, numbers: NDArray[np.integer], *columns: NDArray[np.integer]) -> None:
        """Append row i of the columns to bucket ``numbers[i]``; rows keep their order."""
        order = np.argsort(numbers, kind="stable")
        rows = np.stack([np.asarray(column, dtype=np.int64)[order] for column in columns], axis=1)
        cuts = np.searchsorted(numbers[order], np.arange(len(self.paths) + 1))
        for file, first, last in zip(self.files, cuts[:-1], cuts[1:], strict=True):
            if last > first:
                file.write(rows[first:last].data)

    def close(self) -> None:
        """Close the files."""
        self.stack.close()

    def drain(self) -> Iterator[NDArray[np.int64]]:
        """Yield the rows of each bucket, [rows, columns], and delete its file."""
        self.stack.close()
        for path in self.paths:
            yield np.fromfile(path, dtype=np.int64).reshape(-1, self.columns)
            path.unlink()
