"""``python -m harness import DIR``: copies the records that another machine wrote into the results folder."""

import argparse
import sys
from collections.abc import Iterator
from pathlib import Path

from datasets.files import write_atomic
from harness.store.files import record_paths, rooted_records, side_path
from harness.store.left_out import LeftOut
from harness.store.record import RecordError, StoredRecord


def main(argv: list[str]) -> int:
    """Copy records and environments; 1 when one is damaged or would be overwritten, 2 when there are none."""
    parser = argparse.ArgumentParser("python -m harness import", description="Copy records from another machine.")
    parser.add_argument("folder", type=Path, help="what harness.cell wrote with --out, or another results folder")
    parser.add_argument("--results", type=Path, default=Path("results"), help="folder of the records here")
    arguments = parser.parse_args(argv)
    left_out = LeftOut()
    try:
        copied, same = take_over(arguments.folder, arguments.results, left_out)
    except FileNotFoundError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    except RecordError as error:
        print(f"error: nothing was imported: {error}", file=sys.stderr)
        return 1
    print(f"{copied} records imported into {arguments.results}, {same} were there already")
    return left_out.exit_code()


def take_over(folder: Path, results: Path, left_out: LeftOut) -> tuple[int, int]:
    """Copy all whole records; return how many are new and how many exist here already, byte for byte.

    Damaged ones, and those without their environment, are added to ``left_out``. Raises FileNotFoundError when
    ``folder`` has no record, RecordError, before anything is copied, for those that differ from the file here.
    """
    if not list(record_paths(folder)):
        raise FileNotFoundError(f"{folder} holds no records: give the folder that harness.cell wrote with --out")
    folder, records = rooted_records(folder, left_out)
    files = list(_files(folder, records))
    texts = {results / path.relative_to(folder): path.read_text(encoding="utf-8") for path in files}
    existing = {path: text for path, text in texts.items() if path.exists()}
    differing = [str(path) for path, text in existing.items() if path.read_bytes() != text.encode()]
    if differing:
        raise RecordError("\n  ".join(["these exist here and differ; move or delete one of the two:", *differing]))
    for path, text in texts.items():
        if path not in existing:
            path.parent.mkdir(parents=True, exist_ok=True)
            write_atomic({path: text})
    new = sum(1 for path, _ in records if results / path.relative_to(folder) not in existing)
    return new, len(records) - new


def _files(folder: Path, records: list[StoredRecord]) -> Iterator[Path]:
    """List environments and side files before records, so that no record is ever here without them."""
    yield from (folder / "environments" / f"{name}.json" for name in sorted({one["environment"] for _, one in records}))
    yield from (side_path(path) for path, _ in records if side_path(path).is_file())
    yield from (path for path, _ in records)
