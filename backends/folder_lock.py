"""File lock beside a folder, so that one process at a time works there; it ends with the process."""

import fcntl
import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import IO


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Lock a folder, which need not exist yet; raises BlockingIOError where another process has locked it."""
    lock = folder.with_name(f"{folder.name}.lock")
    lock.parent.mkdir(parents=True, exist_ok=True)
    with ExitStack() as stack:
        while True:
            file = stack.enter_context(lock.open("w"))
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


def _is_at(file: IO[str], path: Path) -> bool:
    """Whether the open file is the one that the path names now."""
    try:
        return os.path.samestat(os.fstat(file.fileno()), path.stat())
    except FileNotFoundError:
        return False
