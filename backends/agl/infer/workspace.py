"""The working folder of one inference: memory-mapped arrays, a marker per finished step, the job's inputs."""

import json
import mmap
import shutil
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from datasets.array_files import create_array, reserve, save_array

Array = NDArray[Any]
SCRATCH_BYTES = 1 << 28


class Workspace:
    """Arrays as memory-mapped files; a step without a marker is computed again.

    With ``unmap`` mapped pages are released after use, not only when the system reclaims them. Raises ValueError where
    ``folder`` holds anything but an earlier run of the same ``job``.
    """

    def __init__(self, folder: Path, job: dict[str, Any], unmap: bool = False) -> None:
        self.folder, self.written, self.unmap = folder, 0, unmap
        job_file = folder / "job.json"
        if job_file.is_file():
            earlier = json.loads(job_file.read_text())
            changed = [key for key in sorted({*earlier, *job}) if earlier.get(key) != job.get(key)]
            if changed:
                key = changed[0]
                raise ValueError(f"{folder} holds the work of another inference ({key} was {earlier.get(key)}, is "
                                 f"{job.get(key)}): give an empty folder, or remove that one")  # fmt: skip
        elif folder.exists() and any(path != _temporary(job_file) for path in folder.iterdir()):
            raise ValueError(f"{folder} holds files of something else: give an empty folder")
        folder.mkdir(parents=True, exist_ok=True)
        self._replace(job_file, json.dumps(job, indent=1, sort_keys=True))

    def create(self, name: str, shape: tuple[int, ...], dtype: DTypeLike) -> Array:
        """Create an array of zeros and reserve its space; raises OSError where the disk has no room for it."""
        path = self.path(name)
        path.parent.mkdir(parents=True, exist_ok=True)
        self.written += int(np.prod(shape)) * np.dtype(dtype).itemsize
        if 0 in shape:
            save_array(path, np.empty(shape, dtype))
            return np.empty(shape, dtype)
        return create_array(path, dtype, shape)

    def rows(self, name: str, shape: tuple[int, ...], dtype: DTypeLike) -> "RowFile":
        """Create an array that is written by consecutive rows; raises OSError where the disk has no room for it."""
        path = self.path(name)
        path.parent.mkdir(parents=True, exist_ok=True)
        self.written += int(np.prod(shape)) * np.dtype(dtype).itemsize
        header = {"descr": np.lib.format.dtype_to_descr(np.dtype(dtype)), "fortran_order": False, "shape": shape}
        with path.open("wb") as file:
            np.lib.format.write_array_header_1_0(file, header)
        file_of_rows = RowFile(path)
        reserve(path, file_of_rows.size)
        return file_of_rows

    def scratch(self, name: str, shape: tuple[int, ...], dtype: DTypeLike) -> Array:
        """Create an array for one step: in memory where it is small, which allows large pages, else mapped."""
        return np.empty(shape, dtype) if self.small(shape, dtype) else self.create(name, shape, dtype)

    @staticmethod
    def small(shape: tuple[int, ...], dtype: DTypeLike) -> bool:
        """Whether an array for one step is created in memory."""
        return int(np.prod(shape)) * np.dtype(dtype).itemsize <= SCRATCH_BYTES

    def open(self, name: str) -> Array:
        """Memory-map an array that an earlier step created."""
        path = self.path(name)
        mode: Any = None if path.stat().st_size <= 128 else "r"  # an empty array cannot be mapped
        array: Array = np.load(path, mmap_mode=mode, allow_pickle=False)
        return array

    def names(self, prefix: str) -> list[str]:
        """Names of the arrays in a subfolder."""
        return sorted(path.name.removesuffix(".npy") for path in (self.folder / prefix).glob("*.npy"))

    def drop(self, name: str) -> None:
        """Remove an array, or a folder of arrays."""
        self.path(name).unlink(missing_ok=True)
        shutil.rmtree(self.folder / name, ignore_errors=True)

    def release(self, array: Array) -> None:
        """With ``unmap``, release the pages of an array, or of a part, that this round does not use again."""
        if self.unmap:
            unmap_pages(array)

    def finish(self, step: str) -> None:
        """Mark a step as finished: its arrays are complete."""
        self._replace(self.folder / f"{step}.done", "")

    def finished(self, step: str) -> bool:
        """Whether a step was finished, here or by an earlier process."""
        return (self.folder / f"{step}.done").is_file()

    def forget(self, step: str) -> None:
        """Remove the marker of a step, so that it runs again."""
        (self.folder / f"{step}.done").unlink(missing_ok=True)

    def path(self, name: str) -> Path:
        """The file of an array."""
        return self.folder / f"{name}.npy"

    @staticmethod
    def _replace(path: Path, text: str) -> None:
        _temporary(path).write_text(text)
        _temporary(path).replace(path)


def _temporary(path: Path) -> Path:
    """The name under which a file is written before it is renamed; a full disk or a kill may leave it."""
    return path.with_name(f".{path.name}.tmp")


class RowFile:
    """A ``.npy`` file written by rows with plain writes, which take less time than page faults of a mapping."""

    def __init__(self, path: Path) -> None:
        self.path = path
        with path.open("rb") as file:
            np.lib.format.read_magic(file)
            shape, _, dtype = np.lib.format.read_array_header_1_0(file)
            self.start = file.tell()
        self.width = int(np.prod(shape[1:])) * dtype.itemsize
        self.size = self.start + shape[0] * self.width

    def put(self, first: int, values: Array) -> None:
        """Write consecutive rows from ``first`` on."""
        with self.path.open("r+b", buffering=0) as file:
            file.seek(self.start + first * self.width)
            remaining = np.ascontiguousarray(values).data.cast("B") if values.size else memoryview(b"")
            while remaining:
                remaining = remaining[file.write(remaining) :]


def unmap_pages(array: Array) -> None:
    """Unmap the whole pages of a mapped array; they stay in the system's cache, and written data is not lost."""
    owner: Any = array
    while isinstance(owner, np.ndarray) and not isinstance(owner.base, mmap.mmap):
        owner = owner.base
    if not isinstance(owner, np.ndarray) or not array.size:
        return
    mapped: Any = owner.base
    start = array.__array_interface__["data"][0] - np.frombuffer(mapped, dtype=np.uint8).__array_interface__["data"][0]
    first = -(-start // mmap.PAGESIZE) * mmap.PAGESIZE
    length = (start + array.nbytes) // mmap.PAGESIZE * mmap.PAGESIZE - first
    if length > 0:
        mapped.madvise(mmap.MADV_DONTNEED, first, length)
