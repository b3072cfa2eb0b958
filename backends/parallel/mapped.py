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
Place = tuple[int, int]  # start and bytes in the file


class _Pickler(pickle.Pickler):
    """Pickler that passes ``memmap`` arrays to the buffer callback, as numpy does by itself for all other arrays."""

    def reducer_override(self, value: Any) -> Any:
        """Pickle a ``memmap`` as a plain array."""
        return np.asarray(value).__reduce_ex__(5) if isinstance(value, np.memmap) else NotImplemented


def dump(values: Sequence[Any]) -> tuple[IO[bytes], list[list[Place]]]:
    """Write ``values`` to an unnamed file, each as a pickle of its own, large arrays that they share once.

    Returns the file, and of each value the places of its pickle and of its large arrays. Raises OSError, with the
    bytes, where the folder for temporary files has no room.
    """
    parts = [_parts_of(value) for value in values]
    file = tempfile.TemporaryFile()  # noqa: SIM115 - the caller closes it
    try:
        return file, _write(file, parts)
    except OSError as error:
        file.close()
        size = sum(part.nbytes for parts_of_value in parts for part in parts_of_value)
        folder = f"{size:,} bytes do not fit in {tempfile.gettempdir()}: set TMPDIR to a folder with more room"
        raise OSError(error.errno, f"{error.strerror}: {folder}") from error


def _parts_of(value: Any) -> list[memoryview]:
    """A value's pickle, and the large arrays that it lacks."""
    buffers: list[memoryview] = []

    def is_inline(buffer: pickle.PickleBuffer) -> bool:
        raw = buffer.raw()
        if raw.nbytes < SMALLEST:
            return True
        buffers.append(raw)
        return False

    pickled = io.BytesIO()
    _Pickler(pickled, protocol=5, buffer_callback=is_inline).dump(value)
    return [pickled.getbuffer(), *buffers]


def _write(file: IO[bytes], parts: Sequence[Sequence[memoryview]]) -> list[list[Place]]:
    """Write each part at an aligned place, memory that comes again once; return the places."""
    written: dict[Place, Place] = {}  # by address and bytes
    places = []
    for parts_of_value in parts:
        addresses = [(np.frombuffer(part, np.uint8).ctypes.data, part.nbytes) for part in parts_of_value]
        for address, contents in zip(addresses, parts_of_value, strict=True):
            if address not in written:
                file.seek(-(-file.tell() // ALIGNMENT) * ALIGNMENT)
                written[address] = file.tell(), contents.nbytes
                file.write(contents)
        places.append([written[address] for address in addresses])
    file.flush()
    return places


def load(descriptor: int, places: list[Place]) -> Any:
    """Load a value that ``dump`` wrote, from a descriptor of its file, and close it; large arrays are read-only."""
    with os.fdopen(descriptor, "rb") as file:
        view = memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))
    pickled, *buffers = (view[start : start + size] for start, size in places)
    return pickle.loads(pickled, buffers=buffers)
