"""``python -m harness list [KIND ...]``: what exists here, and whether it can be run."""

import argparse
import sys
from collections.abc import Callable

from backends.registry import MODULES, config_class
from datasets.order import ORDERS
from datasets.registry import DATASETS, available
from harness.planning.compose import CONF
from harness.usage import unknown

Line = tuple[str, str]


def main(arguments: list[str]) -> int:
    """Print the asked kinds, all of them if none is named; 2 for one that is unknown."""
    parser = argparse.ArgumentParser(prog="python -m harness list", description="Print what exists here.")
    parser.add_argument("kind", nargs="*", metavar="KIND", help=f"any of {', '.join(KINDS)}")
    given = parser.parse_args(arguments).kind
    for kind in given:
        if kind not in KINDS:
            print(f"error: {unknown('kind', kind, KINDS)}", file=sys.stderr)
            return 2
    for kind in given or KINDS:
        lines = KINDS[kind]()
        width = max((len(name) for name, _ in lines), default=0)
        print(f"{kind}:")
        for name, what in lines:
            print(f"  {name:<{width}}  {what}".rstrip())
    return 0


def backends() -> list[Line]:
    """Name every backend with what it can do, or what it lacks."""
    return [(name, _backend(name)) for name in MODULES]


def _backend(name: str) -> str:
    kind = config_class(name)
    missing = kind().missing()
    what = f"{', '.join(kind.runtimes)}; {', '.join(kind.models)}; {', '.join(kind.devices)}"
    ablations = f"; ablations {', '.join([*kind.ablations, 'base'])}" if kind.ablations else ""
    return f"{'not installed: ' + missing if missing else 'installed'}; {what}{ablations}"


def data_sets() -> list[Line]:
    """Name every data set with its title and whether it is at hand."""
    return [(name, f"{entry.title}; {available(name)[1]}") for name, entry in DATASETS.items()]


def orders() -> list[Line]:
    """Name every order."""
    return [(name, "") for name in ORDERS]


def files(group: str) -> Callable[[], list[Line]]:
    """Return a function that names the files of a configuration group with their first comment."""

    def lines() -> list[Line]:
        return [(path.stem, _comment(path.read_text())) for path in sorted((CONF / group).glob("*.yaml"))]

    return lines


def _comment(text: str) -> str:
    comments = [line[1:].strip() for line in text.splitlines() if line.startswith("#")]
    return next((comment for comment in comments if not comment.startswith("@package")), "")


KINDS: dict[str, Callable[[], list[Line]]] = {
    "backends": backends,
    "datasets": data_sets,
    "orders": orders,
    "models": files("model"),
    "scenarios": files("scenario"),
    "ablations": files("ablation"),
    "suites": files("suite"),
    "recipes": files("recipe"),
}
