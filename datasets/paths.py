"""Where the files of a data set are looked for, and what their bytes hash to; standard library only."""

import hashlib
import json
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
    given = os.environ.get("HARNESS_CACHE")
    return Path(given).expanduser() if given else Path.home() / ".cache" / "gnn-harness"


def data_folders() -> list[Path]:
    """Return the read-only folders of ``$HARNESS_DATA``, in the order given."""
    return [Path(part).expanduser() for part in os.environ.get("HARNESS_DATA", "").split(os.pathsep) if part]


def dataset_folder(name: str, cache: Path) -> Path:
    """Return the folder of the cache that downloads of one data set go to."""
    return cache / "datasets" / name


def find_files(name: str, family: str, needs: Iterable[str], cache: Path) -> dict[str, Path] | None:
    """Map the needed file names to paths, all from one folder, or return ``None``.

    In every folder of ``$HARNESS_DATA`` its subfolders ``name`` and ``family`` come before the folder itself; the
    cache comes last.
    """
    candidates = [folder / inner for folder in data_folders() for inner in (name, family, "")]
    for place in [*candidates, dataset_folder(name, cache)]:
        files = {need: place / need for need in needs}
        if files and all(path.is_file() for path in files.values()):
            return files
    return None


def sha256_of(path: Path) -> str:
    """Hash the bytes of one file."""
    with path.open("rb") as handle:
        return hashlib.file_digest(handle, "sha256").hexdigest()


def combined_sha256(hashes: Mapping[str, str], options: Options | None = None) -> str:
    """Combine the hashes of files, sorted by name, with the options that are not the default."""
    lines = [f"{hashes[name]}  {name}" for name in sorted(hashes)]
    if options:
        lines.append(json.dumps(dict(options), sort_keys=True, default=str))
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()
