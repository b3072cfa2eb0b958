"""One run at a time works on a folder: a lock beside it, which the system drops with the process that holds it."""

import fcntl
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def alone(folder: Path) -> Iterator[None]:
    """Hold the lock of a folder that may not exist yet; raises BlockingIOError where another process holds it."""
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
