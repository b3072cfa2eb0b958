"""``python -m harness compare A B``: finds the cells in which B is slower than A."""

import argparse
import sys
from pathlib import Path

from harness.store.left_out import LeftOut
from harness.store.record import RecordError

REGRESSION = 3
ABOUT = (
    "Compare two results folders (or parts of them) cell by cell, or two engines inside their groups. A cell is slower "
    "when the 95 % interval of B's time divided by A's leaves out 1 and the factor exceeds the threshold. Folders are "
    "compared only where the checked environment, the protocol and the data are equal."
)


def main(argv: list[str]) -> int:
    """Print a line per cell; 3 when one became slower or fails now, 2 when nothing can be compared.

    Else 1 when damaged records were left out.
    """
    parser = argparse.ArgumentParser("python -m harness compare", description=ABOUT)
    parser.add_argument("a", metavar="A", help="the older folder, or an engine as a table names it, like 'pyg csr'")
    parser.add_argument("b", metavar="B", help="the newer folder, or the other engine")
    parser.add_argument("--results", type=Path, default=Path("results"), help="folder of the records of two engines")
    parser.add_argument("--threshold", type=float, default=1.05, help="smallest factor that counts (default 1.05)")
    arguments = parser.parse_args(argv)
    from harness.report import verdicts
    from harness.report.render.markdown import markdown_table

    left_out = LeftOut()
    try:
        if Path(arguments.a).is_dir() and Path(arguments.b).is_dir():
            judgements = verdicts.compare_folders(Path(arguments.a), Path(arguments.b), arguments.threshold, left_out)
        else:
            judgements = verdicts.compare_engines(
                arguments.results, arguments.a, arguments.b, arguments.threshold, left_out
            )
    except RecordError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    print(markdown_table(verdicts.table(judgements)))
    worse = sum(verdict.regression for verdict in judgements)
    print(f"\n{len(judgements)} cells compared, {worse} worse")
    if all(verdict.verdict == "not comparable" for verdict in judgements):
        print("error: nothing is comparable: measure both on the same machine with the same packages", file=sys.stderr)
        return 2
    damaged = left_out.exit_code()
    return REGRESSION if worse else damaged
