"""``python -m harness upgrade``: brings old records to today's schema."""

import argparse
from pathlib import Path

from harness.store.files import record_paths
from harness.store.left_out import LeftOut
from harness.store.upgrade import upgrade_folder
from harness.store.versions import SCHEMA_VERSION
from harness.usage import USAGE, complain


def main(argv: list[str]) -> int:
    """Upgrade all records in place; 1 when damaged ones were left as they are, 2 when there are none."""
    parser = argparse.ArgumentParser("python -m harness upgrade", description="Bring records to today's schema.")
    parser.add_argument("--results", type=Path, default=Path("results"), help="folder of the records")
    arguments = parser.parse_args(argv)
    left_out = LeftOut()
    if next(record_paths(arguments.results, left_out), None) is None and not left_out.files:
        return complain(f"{arguments.results} holds no records: give the folder that does, by --results", USAGE)
    changed = upgrade_folder(arguments.results, left_out)
    for path in changed:
        print(path)
    print(f"{len(changed)} records upgraded to schema version {SCHEMA_VERSION}")
    return left_out.exit_code()
