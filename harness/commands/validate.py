"""``python -m harness validate``: checks the records, and that exactly those that reports cite are committed."""

import argparse
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import unquote

from harness.store.files import record_paths, side_path
from harness.store.record import RecordError
from harness.store.schema import NAME
from harness.store.strict_json import read_object
from harness.store.validate import problems_in

CITED = re.compile(r"\]\(([^)\s]*seed=[^)\s]*\.json)\)")


def main(argv: list[str]) -> int:
    """Print every problem; 1 when there is one, 2 when the folder does not exist."""
    parser = argparse.ArgumentParser(
        "python -m harness validate", description="Check the records and the reports that cite them."
    )
    parser.add_argument("--results", type=Path, default=Path("results"), help="folder of the records")
    parser.add_argument("--reports", type=Path, default=Path("reports"), help="folder of the pages")
    arguments = parser.parse_args(argv)
    if not arguments.results.is_dir():
        print(f"error: {arguments.results} is not a folder: name the one that holds the records", file=sys.stderr)
        return 2
    problems = [*problems_in(arguments.results), *unsupported_claims(arguments.results, arguments.reports)]
    for path, problem in problems:
        print(f"{ascii(str(path))[1:-1]}: {problem}")
    if problems and (schema := arguments.results / NAME).is_file():
        print(f"the keys of a record and what they may hold: {schema}")
    print(f"{sum(1 for _ in record_paths(arguments.results))} records, {len(problems)} problems")
    return 1 if problems else 0


def unsupported_claims(results: Path, reports: Path) -> Iterator[tuple[Path, str]]:
    """Yield cited records that do not exist or are not committed, committed ones that no page cites or no record needs.

    Outside a checkout, and where no record is committed, none is asked for.
    """
    cited = set()
    for page in sorted(path for path in reports.glob("*.md") if path.is_file()):
        for link in CITED.findall(page.read_text(encoding="utf-8", errors="replace")):
            target = (page.parent / unquote(link)).resolve()
            cited.add(target)
            if not target.is_file():
                yield page, f"cites {link}, which does not exist: run python -m harness report"
    files = committed(results)
    own = [path for path in cited - files if path.is_file() and path.is_relative_to(results.resolve())]
    for path in sorted(own if files else ()):
        yield path, "is cited by a report, but not committed: git add it"
    needed = cited | {side_path(path) for path in cited}
    for path in sorted(files):
        if path.parent.name != "environments" and path not in needed and path.name != NAME:
            yield path, "is committed, but no report cites it: report it, or git rm it"
    used = {_environment(path) for path in record_paths(results)}
    for path in sorted(files):
        if path.parent.name == "environments" and path.stem not in used:
            yield path, "is committed, but is the environment of no record: git rm it"


def committed(results: Path) -> set[Path]:
    """JSON files below ``results`` that git tracks; empty outside a checkout."""
    command = ["git", "-C", str(results), "ls-files", "-z", "--", "."]
    try:
        answer = subprocess.run(command, capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return set()
    names = (name for name in answer.stdout.split("\0") if name.endswith(".json"))
    return {(results / name).resolve() for name in names}


def _environment(path: Path) -> str:
    try:
        return str(read_object(path).get("environment"))
    except RecordError:
        return ""
