"""Strict reading of JSON files: one object without repeated keys, in UTF-8, of bounded size, finite numbers only."""

import json
import stat
from pathlib import Path
from typing import Any, NoReturn

from harness.store.record import DamagedFile
from harness.store.violations import abridged

LARGEST_FILE = 64 * 2**20
REMEDY = "delete the file and measure the cell again"


def read_object(path: Path, remedy: str = REMEDY) -> dict[str, Any]:
    """Read one JSON object; raises DamagedFile, which ends with ``remedy``, for anything else."""
    return read_with_bytes(path, remedy)[0]


def read_with_bytes(path: Path, remedy: str = REMEDY) -> tuple[dict[str, Any], bytes]:
    """Read one JSON object and the bytes that hold it; raises DamagedFile, which ends with ``remedy``."""
    try:
        content = _content(path)
        return parse_object(content), content
    except (OSError, ValueError, RecursionError) as error:
        raise DamagedFile(path, (f"cannot be read ({_reason(error)}): {remedy}",)) from error


def parse_object(content: bytes) -> dict[str, Any]:
    """Parse one JSON object; raises ValueError, or RecursionError where it is nested too deep."""
    text = content.decode("utf-8")
    values = json.loads(text, object_pairs_hook=_unique, parse_constant=_refuse)
    if not isinstance(values, dict):
        raise ValueError(f"it holds {abridged(values)}, not an object")
    if "\\u" in text:
        # Half of a surrogate pair is no character and cannot be printed.
        json.dumps(values, ensure_ascii=False).encode("utf-8")
    return values


def _content(path: Path) -> bytes:
    """Bytes of a regular file: reading a pipe would wait for ever."""
    state = path.stat()
    if not stat.S_ISREG(state.st_mode):
        raise ValueError("it is no file")
    if state.st_size > LARGEST_FILE:
        raise ValueError(f"it has {state.st_size} bytes, at most {LARGEST_FILE} are read")
    return path.read_bytes()


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    values = dict(pairs)
    if len(values) < len(pairs):
        names = [name for name, _ in pairs]
        raise ValueError(f"key {abridged(next(name for name in names if names.count(name) > 1))} stands there twice")
    return values


def _refuse(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is no JSON")


def _reason(error: Exception) -> str:
    if isinstance(error, RecursionError):
        return "it is nested too deep"
    if isinstance(error, UnicodeError):
        return f"it is not UTF-8: {error.reason}" if hasattr(error, "reason") else "it is not UTF-8"
    return (error.strerror or "unreadable") if isinstance(error, OSError) else str(error)
