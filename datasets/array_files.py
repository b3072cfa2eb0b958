"""Arrays in files, written so that a full disk is an error with its cause: no array cut short, no killed process.

``numpy.save`` names no cause of a short write; writing to a mapped file without reserved blocks kills the process.
"""

import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.lib import format as npy
from numpy.typing import ArrayLike, DTypeLike, NDArray


def save_array(path: Path, array: ArrayLike) -> None:
    """Write an array as ``.npy``; raises OSError of the disk."""
    values = np.asarray(array, order="C")
    save_pieces(path, values.dtype, values.shape, [values])


def save_pieces(path: Path, dtype: np.dtype[Any], shape: tuple[int, ...], pieces: Iterable[NDArray[Any]]) -> None:
    """Write an array as ``.npy`` whose values are those of ``pieces``, in their order; raises OSError of the disk."""
    with path.open("wb") as file:
        header = {"descr": npy.dtype_to_descr(dtype), "fortran_order": False, "shape": shape}
        npy.write_array_header_1_0(file, header)
        for piece in pieces:
            append_array(file, piece)


def append_array(file: BinaryIO, array: NDArray[Any]) -> None:
    """Write the values of an array at the end of an open file; raises OSError of the disk."""
    file.write(memoryview(np.ascontiguousarray(array).reshape(-1).view(np.uint8)))


def create_array(path: Path, dtype: DTypeLike, shape: tuple[int, ...]) -> NDArray[Any]:
    """Create an array of zeros as a mapped ``.npy`` with reserved blocks; raises OSError where they are not free."""
    array: NDArray[Any] = npy.open_memmap(path, mode="w+", dtype=dtype, shape=shape)
    reserve(path, path.stat().st_size)
    return array


def reserve(path: Path, size: int) -> None:
    """Reserve the blocks of ``size`` bytes; removes the file and raises OSError where they are not free."""
    try:
        with path.open("r+b") as file:
            os.posix_fallocate(file.fileno(), 0, size)
    except OSError as error:
        path.unlink()
        hint = f"no room for {size} bytes in {path.parent}: free some, or name another folder"
        raise OSError(error.errno, hint) from error
