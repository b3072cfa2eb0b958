"""``python -m harness upgrade``: brings old records to today's schema."""

import argparse
import sys
from pathlib import Path

from harness.store.record import SCHEMA_VERSION, RecordError
from harness.store.upgrade import upgrade_folder


def main(argv: list[str]) -> int:
    """Upgrade all records in place; 1 when one cannot be upgraded, and then no file changes."""
    parser = argparse.ArgumentParser("python -m harness upgrade", description="Bring records to today's schema.")
    parser.add_argument("--results", type=Path, default=Path("results"), help="folder of the records")
    arguments = parser.parse_args(argv)
    try:
        changed = upgrade_folder(arguments.results)
    except RecordError as error:
        print(f"error: nothing was changed: {error}", file=sys.stderr)
        return 1
    for path in changed:
        print(path)
    print(f"{len(changed)} records upgraded to schema version {SCHEMA_VERSION}")
    return 0
