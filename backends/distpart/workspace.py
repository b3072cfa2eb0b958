"""A folder for what a command unpacks or spools; the next call removes what a killed one left there."""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from backends.folder_lock import locked


@contextmanager
def workspace(folder: Path) -> Iterator[Path]:
    """Create a folder, empty, and remove it at the end; raises BlockingIOError where another process uses it."""
    with locked(folder):
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        try:
            yield folder
        finally:
            shutil.rmtree(folder, ignore_errors=True)
