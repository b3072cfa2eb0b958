"""Temporary files in a results folder whose writer was killed before it could rename or remove them."""

import re
import time
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

TEMPORARY = re.compile(r"\..+\.json\.(\d+)(?:-[0-9a-f]+)?\.tmp")  # as datasets.files names and named them
LEAST_AGE = 3600.0  # seconds; on a shared disk the writer may run on another machine, where no write takes as long


def remove_leftovers(results: Path, records: Iterable[str]) -> None:
    """Remove what processes that no longer run left among the environments and beside records an hour ago or earlier.

    ``records`` are paths relative to ``results``; folders that do not exist, and files that cannot be removed, are left
    alone.
    """
    for folder in {results / "environments", *((results / path).parent for path in records)}:
        for path in folder.glob(".*.tmp"):
            name = TEMPORARY.fullmatch(path.name)
            if name is None or Path("/proc", name[1]).exists():
                continue
            with suppress(OSError):
                if time.time() - path.stat().st_mtime >= LEAST_AGE:
                    path.unlink()
