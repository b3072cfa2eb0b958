"""Pickles whose large arrays lie in an unnamed file, which other processes of this machine map instead of copying."""

import io
import mmap
import os
import pickle
import tempfile
from collections.abc import Sequence
from typing import IO, Any

import numpy as np

SMALLEST = 1 << 16  # bytes of the smallest array that is mapped; smaller ones stay in the pickle and are writable
ALIGNMENT = 64


class _Pickler(pickle.Pickler):
    """Pickler that passes ``memmap`` arrays to the buffer callback, as numpy does by itself for all other arrays."""

    def reducer_override(self, value: Any) -> Any:
        """Pickle a ``memmap`` as a plain array."""
        return np.asarray(value).__reduce_ex__(5) if isinstance(value, np.memmap) else NotImplemented


def dump(value: Any) -> tuple[IO[bytes], list[tuple[int, int]]]:
    """Write ``value`` to an unnamed file; return the file and (start, bytes) of the pickle and of each large array.

    Raises OSError, with the bytes, where the folder for temporary files has no room for it.
    """
    buffers: list[memoryview] = []

    def is_inline(buffer: pickle.PickleBuffer) -> bool:
        raw = buffer.raw()
        if raw.nbytes < SMALLEST:
            return True
        buffers.append(raw)
        return False

    pickled = io.BytesIO()
    _Pickler(pickled, protocol=5, buffer_callback=is_inline).dump(value)
    file = tempfile.TemporaryFile()  # noqa: SIM115 - the caller closes it
    parts = [pickled.getbuffer(), *buffers]
    try:
        return file, _write(file, parts)
    except OSError as error:
        file.close()
        size = sum(part.nbytes for part in parts)
        folder = f"{size:,} bytes do not fit in {tempfile.gettempdir()}: set TMPDIR to a folder with more room"
        raise OSError(error.errno, f"{error.strerror}: {folder}") from error


def _write(file: IO[bytes], parts: Sequence[memoryview]) -> list[tuple[int, int]]:
    """Write each part at an aligned place; return (start, bytes) of each."""
    places = []
    for contents in parts:
        file.seek(-(-file.tell() // ALIGNMENT) * ALIGNMENT)
        places.append((file.tell(), contents.nbytes))
        file.write(contents)
    file.flush()
    return places


def load(descriptor: int, places: list[tuple[int, int]]) -> Any:
    """Load a value that ``dump`` wrote, from a descriptor of its file, and close it; large arrays are read-only."""
    with os.fdopen(descriptor, "rb") as file:
        view = memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))
    pickled, *buffers = (view[start : start + size] for start, size in places)
    return pickle.loads(pickled, buffers=buffers)
