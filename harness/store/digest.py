"""The digest of a record, which finds every change that leaves it a valid one: a digit, a swap of two files."""

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

UNCOVERED = ("digest", "side")


def digest_of(record: Mapping[str, Any], path: Path) -> str:
    """Hash the keys of a whole record, and the names of its file and folder (32 hex digits).

    Order and place of the keys do not matter: a record with a side file and one without have the same digest.
    """
    content = {key: value for key, value in record.items() if key not in UNCOVERED}
    text = json.dumps([path.absolute().parent.name, path.name, content], sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:32]
