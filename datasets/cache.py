"""The cache of prepared graphs: what it holds, locks of its users, its bound; standard library only.

``prepared/<data set>/<order>/`` is an entry. A process that uses it holds a shared lock on the folder to its end; who
removes it takes the exclusive lock, renames the folder and deletes it. A folder whose name begins with a dot is being
written or deleted by the process that locks it, or was left by one that was killed. The modification time of an entry's
folder is its last use. Links are neither followed nor removed.
"""

import fcntl
import json
import math
import os
import re
import shutil
import stat
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

LIMIT = "HARNESS_CACHE_LIMIT_GIB"
LARGEST_LIMIT = 50 * 2**30
SHARE_OF_DISK = 0.2
KEY = re.compile(r"[0-9a-f]{64}")
GRACE_SECONDS = 60.0  # between the creation of a folder and its lock

_locks: dict[Path, int] = {}


@dataclass(frozen=True)
class CacheEntry:
    """A prepared graph, or what a killed process left of one (``half_written``); ``used`` is in seconds since 1970."""

    path: Path
    dataset: str
    order: str
    size: int
    used: float
    half_written: bool = False


def entries(cache: Path) -> list[CacheEntry]:
    """The prepared graphs of a cache and what killed processes left, least recently used first."""
    prepared = [graph for graph in _folders(cache / "prepared") if KEY.fullmatch(graph.name)]
    stored = [_entry(path) for graph in prepared for path in _folders(graph)]
    return sorted((entry for entry in stored if entry is not None), key=lambda entry: (entry.used, entry.path))


def limit(cache: Path) -> int:
    """Bytes that prepared graphs may take: ``$HARNESS_CACHE_LIMIT_GIB``, else 50 GiB or 20 % of the disk if less.

    Raises ValueError for a value that is not a number of GiB.
    """
    text = os.environ.get(LIMIT, "").strip()
    if not text:
        existing = next(path for path in (cache, *cache.absolute().parents) if path.exists())
        return int(min(LARGEST_LIMIT, SHARE_OF_DISK * shutil.disk_usage(existing).total))
    try:
        gib = float(text)
    except ValueError:
        gib = math.nan
    if not gib >= 0:
        raise ValueError(f"{LIMIT}={text} is not allowed: give a number of GiB from 0 on, or leave it unset")
    return int(min(gib, 2.0**30) * 2**30)


def use(folder: Path) -> bool:
    """Mark an entry as used by this process until it ends; False where it is gone."""
    try:
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    except (FileNotFoundError, NotADirectoryError):
        return False
    with suppress(OSError):  # a file system without locks: the entry can then not be removed either
        fcntl.flock(descriptor, fcntl.LOCK_SH)
    if not _is_still(folder, descriptor):
        os.close(descriptor)
        return False
    with suppress(OSError):  # a read-only cache
        os.utime(folder)
    if (previous := _locks.pop(folder, None)) is not None:
        os.close(previous)
    _locks[folder] = descriptor
    return True


def make_room(cache: Path, size: int) -> list[CacheEntry]:
    """Remove what killed processes left and, least recently used first, unused entries until ``size`` bytes fit.

    Returns what was removed. Entries that a process uses stay, even where the bound is then exceeded, and those that
    the disk does not let go.
    """
    return _removed(beyond(entries(cache), limit(cache) - size))


def remove_unused(cache: Path) -> list[CacheEntry]:
    """Remove every entry that no process uses; returns what was removed."""
    return _removed(entries(cache))


def _removed(chosen: Sequence[CacheEntry]) -> list[CacheEntry]:
    removed = []
    for entry in chosen:
        with suppress(OSError):
            removed += [entry] * remove(entry)
    return removed


def beyond(stored: Sequence[CacheEntry], bound: int) -> list[CacheEntry]:
    """What killed processes left and, least recently used first, unused entries until the others fit in ``bound``."""
    chosen = [entry for entry in stored if entry.half_written]
    complete = [entry for entry in stored if not entry.half_written]
    total = sum(entry.size for entry in complete)
    for entry in complete:
        if total <= bound:
            break
        if not in_use(entry):
            chosen.append(entry)
            total -= entry.size
    return chosen


def remove(entry: CacheEntry) -> bool:
    """Delete an entry unless a process uses it; says whether it is gone. Raises OSError as the disk gives it."""
    try:
        with _unused(entry.path) as descriptor:
            if descriptor is None or not _is_still(entry.path, descriptor):
                return False
            if entry.half_written and _just_begun(descriptor):
                return False
            _delete(entry)
    except FileNotFoundError:  # another process deleted it
        pass
    return True


def _delete(entry: CacheEntry) -> None:
    hidden = entry.path
    if not entry.half_written:
        hidden = entry.path.with_name(f".{entry.path.name}.{os.getpid()}-{time.time_ns()}.removed")
        entry.path.rename(hidden)
    shutil.rmtree(hidden)
    with suppress(OSError):  # other orders of the graph are there
        entry.path.parent.rmdir()


def in_use(entry: CacheEntry) -> bool:
    """Whether a process uses an entry, or is writing it."""
    try:
        with _unused(entry.path) as descriptor:
            return descriptor is None
    except OSError:
        return False


@contextmanager
def _unused(path: Path) -> Iterator[int | None]:
    """Lock a folder that no process uses; yields its descriptor, or None where one does. Raises OSError."""
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            unused: int | None = descriptor
        except OSError:
            unused = None
        yield unused
    finally:
        os.close(descriptor)


def downloads(cache: Path) -> list[CacheEntry]:
    """The folders of downloaded files, by data set."""
    return [
        CacheEntry(path, path.name, "", size_of(path), path.stat().st_mtime) for path in _folders(cache / "datasets")
    ]


def remove_download(entry: CacheEntry) -> bool:
    """Delete the downloaded files of a data set unless they are being downloaded; says whether they are gone."""
    try:
        lock = os.open(entry.path / ".lock", os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o644)
    except FileNotFoundError:
        return True
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    else:
        shutil.rmtree(entry.path)
        return True
    finally:
        os.close(lock)


def size_of(folder: Path) -> int:
    """Bytes of the files below a folder; links are not followed, files that vanish do not count."""
    total = 0
    for place, _, files in os.walk(folder):
        for name in files:
            with suppress(OSError):
                total += (Path(place) / name).lstat().st_size
    return total


def _folders(folder: Path) -> Iterator[Path]:
    """The folders inside a folder by name; nothing where it is a link, absent or not readable."""
    with suppress(OSError):
        if stat.S_ISDIR(folder.lstat().st_mode):
            with os.scandir(folder) as listed:
                names = sorted(item.name for item in listed if item.is_dir(follow_symlinks=False))
            yield from (folder / name for name in names)


def _entry(path: Path) -> CacheEntry | None:
    half_written = path.name.startswith(".")
    try:
        used = path.stat().st_mtime
    except OSError:
        return None
    dataset = "?"
    with suppress(OSError, ValueError, TypeError, KeyError):
        dataset = str(json.loads((path / "graph.json").read_text())["name"])
    order = path.name.strip(".").partition(".")[0] if half_written else path.name
    return CacheEntry(path, dataset, order, size_of(path), used, half_written)


def _is_still(folder: Path, descriptor: int) -> bool:
    """Whether a path still leads to the folder that was opened."""
    try:
        return os.path.samestat(os.lstat(folder), os.fstat(descriptor))
    except OSError:
        return False


def _just_begun(descriptor: int) -> bool:
    """Whether a folder is empty and new: the process that made it may be about to lock it."""
    return not os.listdir(descriptor) and time.time() - os.fstat(descriptor).st_mtime < GRACE_SECONDS
