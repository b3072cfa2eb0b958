"""Files and folders written whole or not at all: under a temporary name, then renamed; standard library only."""

import errno
import fcntl
import os
import secrets
import shutil
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

ATTEMPTS = 10


def write_atomic(texts: Mapping[Path, str], deleted_first: Iterable[Path] = ()) -> None:
    """Write text files under temporary names and fsync them, rename them in order; an OSError leaves none.

    ``deleted_first`` are files that must not stand beside a part of the new ones: they go when all is written.
    """
    temporaries = {path: _temporary_name(path) for path in texts}
    try:
        for path, temporary in temporaries.items():
            with temporary.open("w", encoding="utf-8") as file:
                file.write(texts[path])
                file.flush()
                os.fsync(file.fileno())
        for path in deleted_first:
            path.unlink(missing_ok=True)
        for path, temporary in temporaries.items():
            temporary.replace(path)
    finally:
        for temporary in temporaries.values():
            temporary.unlink(missing_ok=True)


@contextmanager
def atomic_file(path: Path) -> Iterator[Path]:
    """Yield a temporary path to write to; it becomes ``path`` at the end of the block, or is deleted on an error."""
    temporary = _temporary_name(path)
    try:
        yield temporary
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


@contextmanager
def atomic_folder(folder: Path) -> Iterator[Path]:
    """Yield a temporary folder to fill; it becomes ``folder`` at the end of the block, or is deleted on an error.

    A ``folder`` that another process completed in the meantime stays as it is. The temporary folder is locked (shared)
    while it is written: without a lock it is what a killed process left.
    """
    temporary = _temporary_folder(folder)
    lock = os.open(temporary, os.O_RDONLY | os.O_DIRECTORY)
    try:
        with suppress(OSError):  # a file system without locks
            fcntl.flock(lock, fcntl.LOCK_SH)
        yield temporary
        temporary.chmod(0o755)
        try:
            temporary.rename(folder)
        except OSError:
            if not folder.is_dir():
                raise
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
        os.close(lock)


def _temporary_folder(folder: Path) -> Path:
    """Make a folder beside ``folder``, whose parent another process may remove as long as it is empty."""
    for _ in range(ATTEMPTS):
        folder.parent.mkdir(parents=True, exist_ok=True)
        with suppress(FileNotFoundError):
            return Path(tempfile.mkdtemp(prefix=f".{folder.name}.", dir=folder.parent))
    raise FileNotFoundError(errno.ENOENT, "another process removes this folder again and again", str(folder.parent))


def _temporary_name(path: Path) -> Path:
    # Machines that share a disk, and containers, have processes of the same number.
    return path.with_name(f".{path.name}.{os.getpid()}-{secrets.token_hex(8)}.tmp")
