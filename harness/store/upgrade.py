"""Upgrades of old records to today's schema: one function per schema version, chained."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from harness.store.files import read_json, record_paths, side_path, write_split
from harness.store.record import SCHEMA_VERSION, RecordError, check_version

Values = dict[str, Any]
Upgrader = Callable[[Values], Values]

# UPGRADERS[n] turns a record of schema version n into one of version n + 1; version 1 is the first there was.
UPGRADERS: Mapping[int, Upgrader] = {}


def upgrade(record: Values, upgraders: Mapping[int, Upgrader] = UPGRADERS, target: int = SCHEMA_VERSION) -> Values:
    """Return a record of schema version ``target``; raises RecordError when a step is missing or it is newer."""
    version = record.get("schema_version")
    if not isinstance(version, int) or version > target:
        check_version(version, "the record")
    while record["schema_version"] < target:
        version = record["schema_version"]
        if version not in upgraders:
            raise RecordError(
                f"no upgrader leads from schema version {version} to {version + 1}: measure the cell again"
            )
        record = upgraders[version](dict(record)) | {"schema_version": version + 1}
    return record


def upgrade_folder(
    results: Path, upgraders: Mapping[int, Upgrader] = UPGRADERS, target: int = SCHEMA_VERSION
) -> list[Path]:
    """Upgrade all records below ``results`` in place and return the files that changed.

    All are read and upgraded before the first is written: a record that cannot be upgraded leaves every file unchanged.
    """
    changed: dict[Path, Values] = {}
    for path in record_paths(results):
        old = read_json(path)
        if old.get("side"):
            old |= read_json(side_path(path))
        new = upgrade(old, upgraders, target)
        if new is not old:
            changed[path] = {key: value for key, value in new.items() if key != "side"}
    for path, values in changed.items():
        write_split(path, values)
    return list(changed)
