"""``python -m harness import DIR``: take over the records that another machine wrote."""

import argparse
import sys
from collections.abc import Iterator
from pathlib import Path

from datasets.files import write_atomic
from harness.store.files import record_paths, side_path
from harness.store.record import RecordError
from harness.store.validate import problems_in


def main(argv: list[str]) -> int:
    """Copy records and environments; 1 when one is not valid or would be overwritten, 2 when there are none."""
    parser = argparse.ArgumentParser("python -m harness import", description="Copy records from another machine.")
    parser.add_argument("folder", type=Path, help="what harness.cell wrote with --out, or another results folder")
    parser.add_argument("--results", type=Path, default=Path("results"), help="folder of the records here")
    options = parser.parse_args(argv)
    try:
        copied, same = take_over(options.folder, options.results)
    except FileNotFoundError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    except RecordError as error:
        print(f"error: nothing was imported: {error}", file=sys.stderr)
        return 1
    print(f"{copied} records imported into {options.results}, {same} were there already")
    return 0


def take_over(folder: Path, results: Path) -> tuple[int, int]:
    """Copy everything or nothing; return how many records are new and how many were here, equal to the byte.

    Raises FileNotFoundError when ``folder`` holds no record, RecordError for bad ones and those that differ here.
    """
    records = list(record_paths(folder))
    if not records:
        raise FileNotFoundError(f"{folder} holds no records: give the folder that harness.cell wrote with --out")
    bad = [f"{path}: {problem}" for path, problem in problems_in(folder)]
    if bad:
        raise RecordError("\n  ".join(["these records are not valid; measure them again:", *bad]))
    files = list(_files(folder, records))
    texts = {results / path.relative_to(folder): path.read_text(encoding="utf-8") for path in files}
    present = {path: text for path, text in texts.items() if path.exists()}
    differing = [str(path) for path, text in present.items() if path.read_text(encoding="utf-8") != text]
    if differing:
        raise RecordError("\n  ".join(["these exist here and differ; move or delete one of the two:", *differing]))
    for path, text in texts.items():
        if path not in present:
            path.parent.mkdir(parents=True, exist_ok=True)
            write_atomic({path: text})
    new = sum(1 for path in records if results / path.relative_to(folder) not in present)
    return new, len(records) - new


def _files(folder: Path, records: list[Path]) -> Iterator[Path]:
    """Environments and side files first, so that no record is ever here without them."""
    yield from sorted((folder / "environments").glob("*.json"))
    yield from (side_path(path) for path in records if side_path(path).exists())
    yield from records
