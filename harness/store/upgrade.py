"""Upgrade of the records in a folder to today's schema."""

from pathlib import Path

from harness.store.files import read_record, record_paths, write_split
from harness.store.left_out import LeftOut
from harness.store.record import DamagedFile
from harness.store.strict_json import read_object
from harness.store.versions import SCHEMA_VERSION


def upgrade_folder(results: Path, left_out: LeftOut) -> list[Path]:
    """Upgrade all records below ``results`` in place and return the files that changed.

    Damaged records are added to ``left_out`` and stay as they are. A record is replaced whole or not at all.
    """
    changed = []
    for path in record_paths(results, left_out):
        try:
            record = read_record(path)
            version = read_object(path)["schema_version"]
        except DamagedFile as damaged:
            left_out.add(path, damaged.problems)
            continue
        if version < SCHEMA_VERSION:
            write_split(path, record)
            changed.append(path)
    return changed
