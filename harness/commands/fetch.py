"""``python -m harness fetch dataset=NAME``: bring a data set here, check it, print what it holds."""

import sys

from datasets.fetch import Progress
from datasets.paths import default_cache
from datasets.registry import available, load_dataset
from harness.planning.compose import compose_arguments
from harness.planning.config import load
from harness.planning.schema import DatasetConfig
from harness.run import DATA_ERRORS, complain
from harness.usage import UsageError

HELP = """usage: python -m harness fetch dataset=NAME [dataset.options.KEY=VALUE]
       python -m harness fetch -m dataset=NAME,NAME

Looks into $HARNESS_DATA and the cache, downloads what is in neither, checks it and prints the counts.
"""


def main(arguments: list[str]) -> int:
    """Fetch the named data sets; 1 if one cannot be had."""
    if {"-h", "--help"} & set(arguments):
        print(HELP, end="")
        return 0
    if not any(argument.startswith("dataset=") for argument in arguments):
        return complain("fetch needs dataset=NAME; python -m harness list datasets shows the names", 2)
    try:
        configs = [load(job.values).dataset for job in compose_arguments(arguments)]
    except UsageError as error:
        return complain(error, 2)
    return max([fetch(config) for config in configs], default=0)


def fetch(config: DatasetConfig) -> int:
    """Load one data set and print its hash and its counts beside the published ones."""
    try:
        graph = load_dataset(config.name, config.options, default_cache(), _progress())
    except DATA_ERRORS as error:
        return complain(error.args[0] if isinstance(error, KeyError) else error, 1)
    print(f"{config.name}: {available(config.name)[1]}, sha256 {graph.sha256 or 'none'} ({graph.trust})")
    for name, held in graph.counts().items():
        published = f"  published {graph.published[name]:,}" if name in graph.published else ""
        print(f"  {name:<20} {held:>14,}{published}")
    for note in graph.notes:
        print(f"  {note}")
    return 0


def _progress() -> Progress | None:
    """Show megabytes on stderr where somebody looks at it."""
    if not sys.stderr.isatty():
        return None

    def show(file: str, held: int, total: int | None) -> None:
        of = f" of {total / 1e6:,.1f}" if total else ""
        print(f"\r{file}: {held / 1e6:,.1f}{of} MB", end="\n" if held == total else "", file=sys.stderr, flush=True)

    return show
