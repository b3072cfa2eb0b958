"""``python -m harness export``: writes all records as one table, CSV or Parquet."""

import argparse
import sys
from pathlib import Path

from harness.store.files import find_records
from harness.store.left_out import LeftOut
from harness.store.record import RecordError

ENDINGS = (".csv", ".parquet")


def main(argv: list[str]) -> int:
    """Write the table; 1 when damaged records were left out, 2 for an unknown ending or when there are no records."""
    parser = argparse.ArgumentParser("python -m harness export", description="Write all records as one table.")
    parser.add_argument("--results", type=Path, default=Path("results"), help="folder of the records")
    parser.add_argument("--out", type=Path, required=True, help=f"file that ends with {' or '.join(ENDINGS)}")
    arguments = parser.parse_args(argv)
    from harness.store.frame import frame, write

    left_out = LeftOut()
    try:
        if arguments.out.suffix not in ENDINGS:
            raise RecordError(f"--out {arguments.out} has no known ending: allowed are {', '.join(ENDINGS)}")
        table = frame(find_records(arguments.results, left_out))
        if table.empty:
            raise RecordError(f"{arguments.results} holds no records: run python -m harness first")
    except RecordError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    arguments.out.parent.mkdir(parents=True, exist_ok=True)
    write(table, arguments.out)
    print(f"{len(table)} records, {len(table.columns)} columns: {arguments.out}")
    return left_out.exit_code()
