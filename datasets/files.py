"""Files and folders that appear whole or not at all, and the hash of a JSON value; standard library only."""

import hashlib
import json
import os
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any


def digest(value: Any) -> str:
    """Return 12 hex digits of the sha256 of a value's JSON; the order of keys does not matter."""
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), default=list)
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def write_atomic(texts: Mapping[Path, str]) -> None:
    """Write files together: all under temporary names, fsync, then renamed in order; an OSError leaves none behind."""
    temporaries = {path: path.with_name(f".{path.name}.{os.getpid()}.tmp") for path in texts}
    try:
        for path, temporary in temporaries.items():
            with temporary.open("w", encoding="utf-8") as file:
                file.write(texts[path])
                file.flush()
                os.fsync(file.fileno())
        for path, temporary in temporaries.items():
            temporary.replace(path)
    except BaseException:
        for temporary in temporaries.values():
            temporary.unlink(missing_ok=True)
        raise


@contextmanager
def whole_or_nothing(folder: Path) -> Iterator[Path]:
    """Give a temporary folder that becomes ``folder`` at the end, unless that is there already or something failed."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    temporary = Path(tempfile.mkdtemp(prefix=f".{folder.name}.", dir=folder.parent))
    try:
        yield temporary
        if not folder.exists():
            temporary.chmod(0o755)
            temporary.rename(folder)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
