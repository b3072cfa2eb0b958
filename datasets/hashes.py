"""Hashes that name files, options and graphs; standard library only."""

import hashlib
import json
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any


def digest(value: Any) -> str:
    """Return 12 hex digits of the sha256 of a value's JSON; the order of keys does not matter."""
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), default=list)
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def file_sha256(path: Path) -> str:
    """Hash the bytes of one file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def stored_sha256(path: Path) -> str:
    """Hash the bytes of one file, once in a process unless its size or modification time changes."""
    stat = path.stat()
    return _stamped_sha256(path.absolute(), stat.st_size, stat.st_mtime_ns)


@cache
def _stamped_sha256(path: Path, _size: int, _modified: int) -> str:
    return file_sha256(path)


def combined_sha256(hashes: Mapping[str, str], options: Mapping[str, Any] | None = None) -> str:
    """Combine the hashes of files, sorted by name, with the options that differ from their defaults."""
    lines = [f"{hashes[name]}  {name}" for name in sorted(hashes)]
    if options:
        lines.append(json.dumps(dict(options), sort_keys=True, default=str))
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()
