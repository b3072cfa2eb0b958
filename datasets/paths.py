"""Folders in which the files of a data set are looked for; standard library only."""

import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

Options = Mapping[str, Any]
Files = Mapping[str, Path]


class DatasetNotFound(FileNotFoundError):
    """A data set is in none of the three places; the message names them and the command to run."""


def default_cache() -> Path:
    """Return ``$HARNESS_CACHE``, or ``~/.cache/gnn-harness``."""
    folder = os.environ.get("HARNESS_CACHE")
    return Path(folder).expanduser() if folder else Path.home() / ".cache" / "gnn-harness"


def data_folders() -> list[Path]:
    """Return the read-only folders of ``$HARNESS_DATA``, in the order of the variable."""
    return [Path(part).expanduser() for part in os.environ.get("HARNESS_DATA", "").split(os.pathsep) if part]


def dataset_folder(name: str, cache: Path) -> Path:
    """Return the folder of the cache for the downloads of one data set."""
    return cache / "datasets" / name


def find_files(name: str, family: str, needs: Iterable[str], cache: Path) -> dict[str, Path] | None:
    """Map the needed file names to paths, all from one folder, or return ``None``.

    In every folder of ``$HARNESS_DATA`` its subfolders ``name`` and ``family`` come before the folder itself; the
    cache comes last.
    """
    candidates = [folder / subfolder for folder in data_folders() for subfolder in (name, family, "")]
    for folder in [*candidates, dataset_folder(name, cache)]:
        files = {need: folder / need for need in needs}
        if files and all(path.is_file() for path in files.values()):
            return files
    return None
