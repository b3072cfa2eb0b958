"""``python -m harness report``: writes the pages and figures from the records."""

import argparse
import sys
from pathlib import Path

from harness.store.left_out import LeftOut
from harness.store.record import RecordError
from harness.usage import USAGE, UsageError, complain


def main(argv: list[str]) -> int:
    """Write all reports; 1 when damaged records were left out, 2 without records or with a wrong suite."""
    parser = argparse.ArgumentParser("python -m harness report", description="Write reports/ from results/ alone.")
    parser.add_argument("--results", type=Path, default=Path("results"), help="folder of the records")
    parser.add_argument("--out", type=Path, default=Path("reports"), help="folder of the pages")
    arguments = parser.parse_args(argv)
    from rich.console import Console

    from harness.report.write import write_reports

    left_out = LeftOut()
    try:
        with Console(file=sys.stderr).status("reading the records") as status:
            written = write_reports(
                arguments.results, arguments.out, lambda name: status.update(f"built {name}"), left_out
            )
    except (RecordError, UsageError) as error:
        return complain(error, USAGE)
    for path in written:
        print(path)
    return left_out.exit_code()
