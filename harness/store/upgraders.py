"""Upgraders of old records to today's schema: one function per schema version, chained."""

from collections.abc import Callable, Mapping
from typing import Any

from harness.store.record import RecordError
from harness.store.versions import SCHEMA_VERSION
from harness.store.violations import abridged

Values = dict[str, Any]
Upgrader = Callable[[Values], Values]


def _from_version_1(record: Values) -> Values:
    """Name the calls of each sample also for protocol 1, whose samples are single calls."""
    epochs = record.get("epochs")
    if record.get("protocol") == 1 and isinstance(epochs, dict) and isinstance(epochs.get("seconds"), list):
        record["epochs"] = {"calls": [1] * len(epochs["seconds"])} | epochs
    return record


# UPGRADERS[n] turns a record of schema version n into one of version n + 1; version 1 is the first there was.
UPGRADERS: Mapping[int, Upgrader] = {1: _from_version_1}


def upgrade(record: Values, upgraders: Mapping[int, Upgrader] = UPGRADERS, target: int = SCHEMA_VERSION) -> Values:
    """Return a record of schema version ``target``; raises RecordError when it is newer, or when a step is missing."""
    version = record.get("schema_version")
    if type(version) is not int or version < 1:
        raise RecordError(f"schema_version is {abridged(version)}: allowed are 1 to {target}; is it a record?")
    if version > target:
        raise RecordError(f"schema_version is {version}, this harness reads {target}: update the harness (git pull)")
    for step in range(version, target):
        if step not in upgraders:
            raise RecordError(f"no upgrader leads from schema version {step} to {step + 1}: measure the cell again")
        record = upgraders[step](dict(record)) | {"schema_version": step + 1}
    return record
