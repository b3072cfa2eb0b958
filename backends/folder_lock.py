"""File lock beside a folder, so that one process at a time works there; it ends with the process."""

import fcntl
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Lock a folder, which need not exist yet; raises BlockingIOError where another process has locked it."""
    lock = folder.with_name(f"{folder.name}.lock")
    lock.parent.mkdir(parents=True, exist_ok=True)
    with lock.open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise BlockingIOError(f"another run works in {folder} now: wait for it, or choose another output") from None
        try:
            yield
        finally:
            lock.unlink(missing_ok=True)
