"""File lock beside a folder, so that one process at a time works there; it ends with the process."""

import errno
import fcntl
import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import IO

_NOT_WRITABLE = (errno.EACCES, errno.EPERM, errno.EROFS)


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Lock a folder, which need not exist yet; raises BlockingIOError where another process has locked it.

    Raises PermissionError where the folder above it, in which the lock lies, may not be written.
    """
    lock = folder.with_name(f"{folder.name}.lock")
    with ExitStack() as stack:
        while True:
            file = stack.enter_context(_opened(lock))
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise BlockingIOError(
                    f"another run works in {folder} now: wait for it, or choose another output"
                ) from None
            if _is_at(file, lock):
                break  # else its holder removed it since it was opened
        try:
            yield
        finally:
            lock.unlink(missing_ok=True)


def _opened(lock: Path) -> IO[str]:
    """The file of a lock, open; raises PermissionError with what to do where it may not be made."""
    try:
        lock.parent.mkdir(parents=True, exist_ok=True)
        return lock.open("w")
    except OSError as error:
        if error.errno not in _NOT_WRITABLE:
            raise
        raise PermissionError(
            f"{lock} cannot be made, which locks the output beside it: choose an output inside of a folder that "
            "you may write"
        ) from error


def _is_at(file: IO[str], path: Path) -> bool:
    """Whether the open file is the one that the path names now."""
    try:
        return os.path.samestat(os.fstat(file.fileno()), path.stat())
    except FileNotFoundError:
        return False
