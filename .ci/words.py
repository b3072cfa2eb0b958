"""Lint of names and docstrings that ruff does not have; ``make lint`` runs it, the standard library is all it needs.

A public class has one name in ``harness``, ``backends`` and ``datasets``; a docstring says what its own code does.
``--count`` also prints how often a variable has a name that says nothing of its value, and fails nothing.
"""

import argparse
import ast
import re
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

PACKAGES = ("harness", "backends", "datasets")
FILLERS = ("held", "found", "given", "made", "kept", "told", "asked", "said", "wanted", "spent", "shown")
# A name that two modules may share: those modules, and why.
SHARED_NAMES: dict[str, tuple[set[str], str]] = {
    "Clock": ({"backends/contract.py", "harness/measure/clock.py"}, "the protocol and its one implementation"),
}
POINTER = re.compile(r"See\s|As\s+(``|:\w+:`|[\w.]*\w\.\w|[A-Z]\w*[.;,]?(\s|$))")
Documented = ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef


class Module(NamedTuple):
    """A parsed source file; ``path`` is relative to the root."""

    path: str
    tree: ast.Module


def parse_package(root: Path, package: str) -> list[Module]:
    """Parse all modules of a package, sorted by path."""
    files = sorted((root / package).rglob("*.py"))
    return [Module(file.relative_to(root).as_posix(), ast.parse(file.read_text(), str(file))) for file in files]


def repeated_classes(modules: list[Module]) -> Iterator[str]:
    """Yield a sentence for every public class whose name an earlier module has, exceptions apart."""
    first: dict[str, tuple[str, int]] = {}
    for path, tree in modules:
        for node in ast.walk(tree):
            if not isinstance(node, ast.ClassDef) or node.name.startswith("_"):
                continue
            other, line = first.setdefault(node.name, (path, node.lineno))
            allowed = SHARED_NAMES.get(node.name, (set(), ""))[0]
            if (other, line) != (path, node.lineno) and not {other, path} <= allowed:
                yield f"{path}:{node.lineno}: class {node.name} is also in {other}:{line}: rename one"


def pointing_docstrings(modules: list[Module]) -> Iterator[str]:
    """Yield a sentence for every docstring that begins by naming another place: "See ``X``", "As ``Y``"."""
    for path, tree in modules:
        for node in ast.walk(tree):
            text = ast.get_docstring(node, clean=False) if isinstance(node, Documented) else None
            if text and POINTER.match(text):
                line = node.body[0].lineno  # type: ignore[attr-defined]
                yield f"{path}:{line}: docstring {text.splitlines()[0]!r} points elsewhere: say what this code does"


def filler_counts(modules: list[Module]) -> Counter[str]:
    """Count variables, parameters and functions whose name is one of ``FILLERS``."""
    nodes = [node for module in modules for node in ast.walk(module.tree)]
    names = [node.id for node in nodes if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)]
    names += [node.arg for node in nodes if isinstance(node, ast.arg)]
    names += [node.name for node in nodes if isinstance(node, ast.FunctionDef)]
    return Counter(name for name in names if name in FILLERS)


def main(arguments: list[str]) -> int:
    """Print a line per problem; return 1 if there is one."""
    parser = argparse.ArgumentParser(prog=".ci/words.py", description="Check names of classes, and docstrings.")
    parser.add_argument("root", nargs="?", type=Path, default=Path(__file__).resolve().parent.parent)
    parser.add_argument("--count", action="store_true", help="count variables named held, found, given, ...")
    options = parser.parse_args(arguments)
    modules = [module for package in PACKAGES for module in parse_package(options.root, package)]
    problems = [*repeated_classes(modules), *pointing_docstrings(modules)]
    print(*problems or [f"words: {len(modules)} modules, names and docstrings are good"], sep="\n")
    if options.count:
        for package in (*PACKAGES, "tests"):
            counts = filler_counts(parse_package(options.root, package))
            print(f"{package}: {counts.total()}", *(f"{name} {count}" for name, count in counts.most_common()))
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
