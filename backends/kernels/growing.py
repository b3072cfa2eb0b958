"""Arrays that grow at their end, in memory or in an unnamed file that is mapped when it is whole."""

import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from datasets.array_files import append_array


@dataclass(frozen=True)
class Storage:
    """Where the large arrays of a computation lie: in memory, or those above ``most`` bytes in files of ``folder``.

    Pages of such a file are the system's cache: it writes them back and drops them where memory is short.
    """

    folder: Path | None = None
    most: int = 0

    def growing(self, dtype: Any, bytes_expected: int) -> "MemoryArray":
        """An empty array that will take about ``bytes_expected``."""
        in_file = self.folder is not None and bytes_expected > self.most
        return FileArray(np.dtype(dtype), self.folder) if in_file else MemoryArray(np.dtype(dtype))


IN_MEMORY = Storage()


class MemoryArray:
    """An array in memory that is appended to."""

    def __init__(self, dtype: np.dtype[Any]) -> None:
        self._array: NDArray[Any] = np.empty(0, dtype=dtype)
        self._size = 0

    def append(self, values: NDArray[Any]) -> None:
        """Add values at the end."""
        end = self._size + len(values)
        if end > len(self._array):
            self._array.resize(max(end, len(self._array) * 3 // 2), refcheck=False)
        self._array[self._size : end] = values
        self._size = end

    def take_over(self, values: NDArray[Any], size: int) -> None:
        """Add the first ``size`` of ``values``, an array of its own that the caller does not use again."""
        if self._size:
            self.append(values[:size])
            return
        values.resize(size, refcheck=False)
        self._array, self._size = values, size

    def whole(self) -> NDArray[Any]:
        """All values; nothing can be added from then on."""
        self._array.resize(self._size, refcheck=False)
        return self._array


class FileArray(MemoryArray):
    """An array in an unnamed file of a folder, which goes with the array."""

    def __init__(self, dtype: np.dtype[Any], folder: Path | None) -> None:
        super().__init__(dtype)
        self._file = tempfile.TemporaryFile(dir=folder)  # noqa: SIM115 - lives as long as the array

    def append(self, values: NDArray[Any]) -> None:
        """Write values at the end of the file."""
        append_array(self._file, values)
        self._size += len(values)

    def take_over(self, values: NDArray[Any], size: int) -> None:
        """Write the first ``size`` values."""
        self.append(values[:size])

    def whole(self) -> NDArray[Any]:
        """Map the file."""
        if not self._size:
            return self._array
        self._file.flush()
        return np.memmap(self._file, dtype=self._array.dtype, mode="r", shape=(self._size,))


class EdgeFile:
    """Ends of edges in an unnamed file of a folder, read as often as needed in the pieces that were appended."""

    def __init__(self, folder: Path) -> None:
        self._file = tempfile.TemporaryFile(dir=folder)  # noqa: SIM115 - lives as long as the edges
        self._lengths: list[int] = []

    def append(self, sources: NDArray[np.int32], destinations: NDArray[np.int32]) -> None:
        """Write a piece at the end; raises OSError of the disk."""
        append_array(self._file, sources)
        append_array(self._file, destinations)
        self._lengths.append(len(sources))

    def pieces(self) -> Iterator[tuple[NDArray[np.int32], NDArray[np.int32]]]:
        """Sources and destinations of each piece."""
        self._file.seek(0)
        for length in self._lengths:
            sources, destinations = np.fromfile(self._file, np.int32, 2 * length).reshape(2, length)
            yield sources, destinations
