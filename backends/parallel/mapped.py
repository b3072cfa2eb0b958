"""Pickles whose large arrays lie in an unnamed file: processes of one machine map them instead of copying them."""

import io
import mmap
import os
import pickle
import tempfile
from typing import IO, Any

import numpy as np

SMALLEST = 1 << 16  # bytes of an array that is worth a mapping; smaller ones stay in the pickle, and can be written to
ALIGNMENT = 64


class _Pickler(pickle.Pickler):
    """Keeps the contents of mapped arrays out of the pickle, as numpy does by itself for all other arrays."""

    def reducer_override(self, value: Any) -> Any:
        """Pickle a ``memmap`` as the array that it is."""
        return np.asarray(value).__reduce_ex__(5) if isinstance(value, np.memmap) else NotImplemented


def dump(value: Any) -> tuple[IO[bytes], list[tuple[int, int]]]:
    """Write ``value`` to an unnamed file; return the file and (start, bytes) of the pickle and of each large array."""
    buffers: list[memoryview] = []

    def stays(buffer: pickle.PickleBuffer) -> bool:
        raw = buffer.raw()
        if raw.nbytes < SMALLEST:
            return True
        buffers.append(raw)
        return False

    pickled = io.BytesIO()
    _Pickler(pickled, protocol=5, buffer_callback=stays).dump(value)
    file = tempfile.TemporaryFile()  # noqa: SIM115 - the caller closes it
    places = []
    for part in (pickled.getbuffer(), *buffers):
        file.seek(-(-file.tell() // ALIGNMENT) * ALIGNMENT)
        places.append((file.tell(), part.nbytes))
        file.write(part)
    file.flush()
    return file, places


def load(descriptor: int, places: list[tuple[int, int]]) -> Any:
    """Read what ``dump`` wrote, from an open descriptor of its file, which is closed; large arrays are read-only."""
    with os.fdopen(descriptor, "rb") as file:
        view = memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))
    pickled, *buffers = (view[start : start + size] for start, size in places)
    return pickle.loads(pickled, buffers=buffers)
