"""Name and content hash of a user's tables, which tell two data sets of tables apart."""

import re
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path
from typing import Any

from datasets.hashes import combined_sha256
from datasets.tables.reading import table_sha256
from datasets.tables.table import TableError

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,47}")
ALLOWED = "1 to 48 letters (a to z, A to Z), digits, _ and -, the first one a letter or a digit"
LONGEST_FOLDER = 32


def identified(options: Mapping[str, Any], taken: Iterable[str] = ()) -> dict[str, Any]:
    """Add ``name`` and ``sha256`` to the options of user tables, as far as the tables can be read.

    ``sha256`` is the beginning of the hash of both files, so that other tables at the same paths make other cells. The
    name is by default that of the folder of the node table, with the beginning of the hash. Raises ValueError for a
    name that is not allowed or ``taken``, and where the files are others than a given ``sha256`` says.
    """
    sha256, expected = _sha256(options), options.get("sha256")
    if expected is not None and sha256 is not None and not sha256.startswith(str(expected)):
        raise ValueError(
            f"{options['nodes']} and {options['edges']} have sha256 {sha256}, but dataset.options.sha256={expected}: "
            "these are other tables; leave the option out to measure them"
        )
    name = options.get("name")
    name = _derived(options, sha256) if name is None else _checked(name, taken)
    identity = {"name": name, "sha256": sha256 or expected}
    tables = {role: options[role] for role in ("nodes", "edges") if isinstance(options.get(role), Mapping)}
    named = {role: {str(kind): path for kind, path in paths.items()} for role, paths in tables.items()}
    return dict(options) | named | {key: value for key, value in identity.items() if value is not None}


def _checked(name: object, taken: Iterable[str]) -> str:
    text = str(name)
    if isinstance(name, bool | list | dict) or NAME.fullmatch(text) is None:
        abridged = repr(text if len(text) <= 60 else f"{text[:60]}...")
        raise ValueError(f"dataset.options.name={abridged} is not allowed: give {ALLOWED}")
    if text.lower() in {other.lower() for other in taken}:
        raise ValueError(f"dataset.options.name={text} is the name of another data set: give your tables another one")
    return text


def _derived(options: Mapping[str, Any], sha256: str | None) -> str | None:
    """Name tables by the folder of the node table, in allowed characters, and the hash of both files."""
    if not options.get("nodes") or sha256 is None:
        return None
    path = next(iter(files_of(options).values()))
    folder = path.rpartition("/")[0] if "://" in path else str(_local(path).absolute().parent)
    words = re.sub(r"[^A-Za-z0-9_]+", "-", folder.rstrip("/").rpartition("/")[2])[:LONGEST_FOLDER].strip("-_")
    return f"{words or 'tables'}-{sha256[:8]}"


def _sha256(options: Mapping[str, Any]) -> str | None:
    """The first 12 hex digits for both files; ``None`` where one cannot be read: the loader says why."""
    try:
        hashes = {role: _file_sha256(path, _stamp(path)) for role, path in files_of(options).items()}
        return combined_sha256(hashes)[:12]
    except (TableError, OSError, ImportError, ValueError):
        return None


def files_of(options: Mapping[str, Any]) -> dict[str, str]:
    """The paths of all tables by role: nodes and edges, or each of their types."""
    files: dict[str, str] = {}
    for role in ("nodes", "edges"):
        tables = options.get(role) or ""
        if isinstance(tables, Mapping):
            files |= {f"{role}/{kind}": str(path) for kind, path in tables.items()}
        else:
            files[role] = str(tables)
    return files


def content_sha256(nodes: str, edges: str) -> str:
    """Combine the hashes of both files."""
    return combined_sha256({"nodes": nodes, "edges": edges})


def _stamp(path: str) -> tuple[int, int] | None:
    """Size and modification time of a local file, so that a changed one is hashed again; ``None`` for other paths."""
    try:
        stat = _local(path).stat()
    except OSError:
        return None
    return stat.st_size, stat.st_mtime_ns


def _local(path: str) -> Path:
    """The file that fsspec reads at a local path: ``~`` stands for the home folder of a user that exists."""
    try:
        return Path(path).expanduser()
    except RuntimeError:
        return Path(path)


@cache
def _file_sha256(path: str, stamp: tuple[int, int] | None) -> str:
    return table_sha256(path)
