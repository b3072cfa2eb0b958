"""A folder for what a command unpacks or spools; the next call removes what a killed one left there."""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from backends.folder_lock import locked


@contextmanager
def workspace(folder: Path) -> Iterator[Path]:
    """Create a folder, empty, and remove it at the end; raises BlockingIOError where another process uses it.

    Folders above it that did not exist go again, unless something else was written there.
    """
    missing = [parent for parent in folder.parents if not parent.exists()]
    try:
        with locked(folder):
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir()
            try:
                yield folder
            finally:
                shutil.rmtree(folder, ignore_errors=True)
    finally:
        for parent in missing:
            with suppress(OSError):
                parent.rmdir()
