"""Folders for new files, tried before anything is measured: what cannot be written later would be lost."""

import errno
import os
import tempfile
from collections.abc import Iterable
from pathlib import Path

from harness.usage import UsageError

DISK_FULL = (errno.ENOSPC, errno.EDQUOT)


def check_writable(results: Path, records: Iterable[str], states: Iterable[str | None]) -> None:
    """Raise UsageError unless records can be written at paths relative to ``results``, and files of parameters.

    A folder that does not exist yet is tried where it would be made. Raises OSError for a full disk.
    """
    folders = [results / "environments", *((results / path).parent for path in records)]
    parameters = [Path(path) for path in states if path is not None]
    folders += [file.parent for file in parameters]
    places: dict[Path, Path] = {}
    for folder in folders:
        places.setdefault(_existing(folder), folder)
    for place, folder in places.items():
        try:
            with tempfile.NamedTemporaryFile(dir=place):
                pass
        except OSError as error:
            if error.errno in DISK_FULL:
                raise
            reason = f"{error.strerror} at {place}"
            raise UsageError(f"{folder} is not writable ({reason}): give another folder, or mend that") from error
    for file in parameters:
        if file.is_dir():
            raise UsageError(f"scenario.save_state={file} is a folder: name a file in it, like {file / 'best.npz'}")


def _existing(folder: Path) -> Path:
    """The folder itself, or the nearest one above it that exists."""
    return next(place for place in (folder, *folder.parents) if os.path.lexists(place))
