"""The folder of one inference: mapped arrays, one marker per finished step, and whose work it is."""

import json
import mmap
import os
import shutil
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

Array = NDArray[Any]
SCRATCH_BYTES = 1 << 28


class Workspace:
    """Arrays as files, mapped into memory; what has no marker is made again.

    ``unmap``: let go of mapped pages once they are used, instead of when the system wants them back.
    Raises ValueError where ``folder`` holds something else than an earlier run of the same ``job``.
    """

    def __init__(self, folder: Path, job: dict[str, Any], unmap: bool = False) -> None:
        self.folder, self.written, self.unmap = folder, 0, unmap
        plan = folder / "job.json"
        if plan.is_file():
            held = json.loads(plan.read_text())
            other = [key for key in sorted({*held, *job}) if held.get(key) != job.get(key)]
            if other:
                key = other[0]
                raise ValueError(f"{folder} holds the work of another inference ({key} was {held.get(key)}, is "
                                 f"{job.get(key)}): give an empty folder, or remove that one")  # fmt: skip
        elif folder.exists() and any(path != _unnamed(plan) for path in folder.iterdir()):
            raise ValueError(f"{folder} holds files of something else: give an empty folder")
        folder.mkdir(parents=True, exist_ok=True)
        self._replace(plan, json.dumps(job, indent=1, sort_keys=True))

    def create(self, name: str, shape: tuple[int, ...], dtype: DTypeLike) -> Array:
        """Make an array of zeros; raises OSError now, and not at some write, where the disk has no room for it."""
        path = self.path(name)
        path.parent.mkdir(parents=True, exist_ok=True)
        self.written += int(np.prod(shape)) * np.dtype(dtype).itemsize
        if 0 in shape:
            np.save(path, np.empty(shape, dtype))
            return np.empty(shape, dtype)
        made: Array = np.lib.format.open_memmap(path, mode="w+", dtype=dtype, shape=shape)
        self._reserve(path, path.stat().st_size)
        return made

    def rows(self, name: str, shape: tuple[int, ...], dtype: DTypeLike) -> "Rows":
        """Make an array that is written in runs of whole rows; raises OSError as ``create`` does."""
        path = self.path(name)
        path.parent.mkdir(parents=True, exist_ok=True)
        self.written += int(np.prod(shape)) * np.dtype(dtype).itemsize
        header = {"descr": np.lib.format.dtype_to_descr(np.dtype(dtype)), "fortran_order": False, "shape": shape}
        with path.open("wb") as file:
            np.lib.format.write_array_header_1_0(file, header)
        made = Rows(path)
        self._reserve(path, made.size)
        return made

    def scratch(self, name: str, shape: tuple[int, ...], dtype: DTypeLike) -> Array:
        """Make an array that no later step reads: in memory while it is small, where pages are large, else mapped."""
        return np.empty(shape, dtype) if self.small(shape, dtype) else self.create(name, shape, dtype)

    @staticmethod
    def small(shape: tuple[int, ...], dtype: DTypeLike) -> bool:
        """Whether an array that no later step reads stays in memory."""
        return int(np.prod(shape)) * np.dtype(dtype).itemsize <= SCRATCH_BYTES

    def open(self, name: str) -> Array:
        """Map an array that an earlier step made."""
        path = self.path(name)
        held: Array = np.load(path, mmap_mode=None if path.stat().st_size <= 128 else "r", allow_pickle=False)
        return held

    def names(self, prefix: str) -> list[str]:
        """The arrays in a folder of this one."""
        return sorted(path.name.removesuffix(".npy") for path in (self.folder / prefix).glob("*.npy"))

    def drop(self, name: str) -> None:
        """Remove an array, or a folder of arrays, that nothing reads any more."""
        self.path(name).unlink(missing_ok=True)
        shutil.rmtree(self.folder / name, ignore_errors=True)

    def release(self, array: Array) -> None:
        """Say that an array, or a part of one, is not used again in this round."""
        if self.unmap:
            release(array)

    def finish(self, step: str) -> None:
        """Mark a step as done: its arrays are whole."""
        self._replace(self.folder / f"{step}.done", "")

    def finished(self, step: str) -> bool:
        """Whether a step was done, here or by an earlier process."""
        return (self.folder / f"{step}.done").is_file()

    def forget(self, step: str) -> None:
        """Have a step done again."""
        (self.folder / f"{step}.done").unlink(missing_ok=True)

    @staticmethod
    def _reserve(path: Path, size: int) -> None:
        try:
            with path.open("r+b") as file:
                os.posix_fallocate(file.fileno(), 0, size)
        except OSError as error:
            path.unlink()
            hint = f"no room for {size} bytes in {path.parent}: free some, or name another folder"
            raise OSError(error.errno, hint) from error

    def path(self, name: str) -> Path:
        """The file of an array."""
        return self.folder / f"{name}.npy"

    @staticmethod
    def _replace(path: Path, text: str) -> None:
        _unnamed(path).write_text(text)
        _unnamed(path).replace(path)


def _unnamed(path: Path) -> Path:
    """Where a file is written first; a full disk or a kill may leave it."""
    return path.with_name(f".{path.name}.tmp")


class Rows:
    """A ``.npy`` file to write rows into; not mapped, as the first touch of a mapped page costs more than its copy."""

    def __init__(self, path: Path) -> None:
        self.path = path
        with path.open("rb") as file:
            np.lib.format.read_magic(file)
            shape, _, dtype = np.lib.format.read_array_header_1_0(file)
            self.start = file.tell()
        self.width = int(np.prod(shape[1:])) * dtype.itemsize
        self.size = self.start + shape[0] * self.width

    def put(self, first: int, values: Array) -> None:
        """Write rows ``first`` and those that follow."""
        with self.path.open("r+b", buffering=0) as file:
            file.seek(self.start + first * self.width)
            left = np.ascontiguousarray(values).data.cast("B") if values.size else memoryview(b"")
            while left:
                left = left[file.write(left) :]


def release(array: Array) -> None:
    """Unmap the pages of a mapped array for now; the system may keep them cached, and nothing written is lost."""
    held: Any = array
    while isinstance(held, np.ndarray) and not isinstance(held.base, mmap.mmap):
        held = held.base
    if not isinstance(held, np.ndarray) or not array.size:
        return
    mapped: Any = held.base
    start = array.__array_interface__["data"][0] - np.frombuffer(mapped, dtype=np.uint8).__array_interface__["data"][0]
    first = -(-start // mmap.PAGESIZE) * mmap.PAGESIZE
    length = (start + array.nbytes) // mmap.PAGESIZE * mmap.PAGESIZE - first
    if length > 0:
        mapped.madvise(mmap.MADV_DONTNEED, first, length)
