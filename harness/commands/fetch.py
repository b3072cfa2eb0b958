"""``python -m harness fetch dataset=NAME``: downloads a data set, checks it, prints its counts."""

import sys

from datasets.fetch import Progress
from datasets.options import OptionError
from datasets.paths import default_cache
from datasets.registry import available, load_dataset
from harness.planning.compose import compose_arguments
from harness.planning.config import load
from harness.planning.graphs import DATA_ERRORS, UNCHECKED, why_not_available
from harness.planning.schema import DatasetConfig
from harness.usage import FAILED, OK, USAGE, UsageError, complain

HELP = """usage: python -m harness fetch dataset=NAME [+dataset.options.KEY=VALUE]
       python -m harness fetch -m dataset=NAME,NAME

Looks into $HARNESS_DATA and the cache, downloads files that are in neither, checks them and prints the counts.
Options that conf/dataset/NAME.yaml names are given without the +.
"""


def main(arguments: list[str]) -> int:
    """Fetch the named data sets; 1 if one is not available, 2 if an option is not allowed."""
    if {"-h", "--help"} & set(arguments):
        print(HELP, end="")
        return OK
    if not any(argument.startswith("dataset=") for argument in arguments):
        return complain("fetch needs dataset=NAME; python -m harness list datasets shows the names", USAGE)
    try:
        configs = [load(composition.values).dataset for composition in compose_arguments(arguments)]
    except UsageError as error:
        return complain(error, USAGE)
    return max([fetch(config) for config in configs], default=OK)


def fetch(config: DatasetConfig) -> int:
    """Load one data set and print its hash and its counts beside the published ones."""
    try:
        graph = load_dataset(config.name, config.options, default_cache(), _progress())
    except OptionError as error:
        return complain(error, USAGE)
    except (*DATA_ERRORS, *UNCHECKED) as error:
        options = f"dataset.options={config.options}"
        return complain(why_not_available(error, f"data set {config.name}", options), FAILED)
    print(f"{graph.name}: {available(config.name)[1]}, sha256 {graph.sha256 or 'none'} ({graph.trust})")
    for name, count in graph.counts().items():
        published = f"  published {graph.published[name]:,}" if name in graph.published else ""
        print(f"  {name:<20} {count:>14,}{published}")
    for note in graph.notes:
        print(f"  {note}")
    return OK


def _progress() -> Progress | None:
    """Return a function that prints megabytes on stderr, ``None`` where stderr is no terminal."""
    if not sys.stderr.isatty():
        return None

    def print_progress(file: str, bytes_read: int, total: int | None) -> None:
        of = f" of {total / 1e6:,.1f}" if total else ""
        end = "\n" if bytes_read == total else ""
        print(f"\r{file}: {bytes_read / 1e6:,.1f}{of} MB", end=end, file=sys.stderr, flush=True)

    return print_progress
