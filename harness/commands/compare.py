"""``python -m harness compare A B``: finds the cells in which B is slower than A."""

import argparse
import signal
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from harness.compare.factor import THRESHOLD, UNDECIDED, check_threshold
from harness.store.left_out import LeftOut
from harness.store.record import RecordError
from harness.usage import FAILED, OK, USAGE, UsageError, complain

if TYPE_CHECKING:
    from harness.compare.verdict import Verdict

REGRESSION = 3
ABOUT = (
    "Compare two results folders (or parts of them) cell by cell, each by its ratio to what both measured beside it; "
    "or two engines inside their groups; or, with --run, two checkouts, whose cells are then measured in turns. A cell "
    "is slower when the interval of B's time divided by A's leaves out 1 and the factor exceeds the threshold. Folders "
    "are compared only where the checked environment, the protocol and the data are equal."
)


def main(argv: list[str]) -> int:
    """Print a line per cell; 3 when one became slower or fails now, 2 when nothing can be compared.

    Else 1 when damaged records were left out.
    """
    parser = _parser()
    options, overrides = parser.parse_known_args(argv)
    if problem := _ignored(options, overrides):
        parser.error(problem)
    try:
        check_threshold(options.threshold)
        return _compare_checkouts(options, overrides) if options.run else _compare_records(options)
    except (RecordError, UsageError) as error:
        return complain(error, USAGE)
    except KeyboardInterrupt:
        return complain("interrupted: nothing is left of this comparison", FAILED)


def _ignored(options: argparse.Namespace, overrides: list[str]) -> str | None:
    """Name an argument that this kind of comparison does not read, and what it belongs to."""
    if overrides and not options.run:
        return f"{' '.join(overrides)}: overrides need --run and two checkouts"
    if options.pairs is not None and not options.run:
        return f"--pairs {options.pairs}: pairs of runs need --run and two checkouts"
    if options.results is not None and (options.run or _are_folders(options)):
        what = "with --run nothing is read from it" if options.run else "both folders are named already"
        return f"--results {options.results} is for two engines, {what}: leave it out"
    return None


def _are_folders(options: argparse.Namespace) -> bool:
    return Path(options.a).is_dir() and Path(options.b).is_dir()


def _parser() -> argparse.ArgumentParser:
    from harness.compare.signed_ranks import PAIRS

    usage = "python -m harness compare [--threshold F] [--results DIR] A B\n       " + (
        "python -m harness compare --run [--pairs N] [--threshold F] OLD NEW [overrides ...]"
    )
    parser = argparse.ArgumentParser("python -m harness compare", usage, ABOUT, allow_abbrev=False)
    parser.add_argument("a", metavar="A", help="the older folder or checkout, or an engine: 'pyg csr'")
    parser.add_argument("b", metavar="B", help="the newer folder or checkout, or the other engine")
    parser.add_argument("--run", action="store_true", help="A and B are checkouts: measure the cells of the overrides")
    parser.add_argument("--pairs", type=int, help=f"most pairs of runs with --run (default {PAIRS})")
    parser.add_argument("--results", type=Path, help="folder of the records of two engines (default results)")
    parser.add_argument(
        "--threshold", type=float, default=THRESHOLD, help=f"smallest factor that counts (default {THRESHOLD})"
    )
    return parser


def _compare_records(options: argparse.Namespace) -> int:
    from harness.compare.engines import compare_engines
    from harness.compare.folders import compare_folders

    left_out = LeftOut()
    notes: list[str] = []
    if _are_folders(options):
        verdicts = compare_folders(Path(options.a), Path(options.b), options.threshold, left_out, notes.append)
    else:
        results = options.results or Path("results")
        verdicts = compare_engines(results, options.a, options.b, options.threshold, left_out)
    remedy = "measure both on the same machine with the same packages"
    return _print(verdicts, "n", remedy, notes) or left_out.exit_code()


def _compare_checkouts(options: argparse.Namespace, overrides: list[str]) -> int:
    from harness.compare.checkout import Checkout
    from harness.compare.in_turns import measure_in_turns
    from harness.compare.signed_ranks import PAIRS, SequentialRule
    from harness.launcher.process import LauncherError

    try:
        rule = SequentialRule(PAIRS if options.pairs is None else options.pairs, options.threshold)
    except ValueError as error:
        raise UsageError(str(error)) from error
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        verdicts = measure_in_turns(Checkout(Path(options.a)), Checkout(Path(options.b)), overrides, rule)
    except LauncherError as error:
        return complain(error, FAILED)
    return _print(verdicts, "pairs", "give overrides of cells that both checkouts can measure")


def _print(verdicts: Sequence["Verdict"], n: str, remedy: str, notes: Sequence[str] = ()) -> int:
    """Print the verdicts, how many there are of each kind that matters, and notes; return the exit code."""
    from harness.compare.verdict import NOT_COMPARABLE, verdict_table
    from harness.report.render.markdown import markdown_table

    print(markdown_table(verdict_table(verdicts, n)))
    worse = sum(verdict.regression for verdict in verdicts)
    undecided = sum(verdict.verdict == UNDECIDED for verdict in verdicts)
    print(f"\n{len(verdicts)} cells compared, {worse} worse, {undecided} undecided")
    for note in notes:
        print(note)
    if all(verdict.verdict == NOT_COMPARABLE for verdict in verdicts):
        return complain(f"nothing is comparable: {remedy}", USAGE)
    return REGRESSION if worse else OK
