"""Temporary files in a results folder whose writer was killed before it could rename or remove them."""

import re
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

TEMPORARY = re.compile(r"\..+\.json\.(\d+)\.tmp")  # as datasets.files names them


def remove_leftovers(results: Path, records: Iterable[str]) -> None:
    """Remove what processes that no longer run left among the environments and beside records.

    ``records`` are paths relative to ``results``; folders that do not exist, and files that cannot be removed, are left
    alone.
    """
    for folder in {results / "environments", *((results / path).parent for path in records)}:
        for path in folder.glob(".*.tmp"):
            name = TEMPORARY.fullmatch(path.name)
            if name is not None and not Path("/proc", name[1]).exists():
                with suppress(OSError):
                    path.unlink()
