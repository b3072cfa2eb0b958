"""Good records of earlier runs of a cell in its group: no later run may take one away."""

from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from harness.measure.sources import forget_digests, is_current
from harness.store.files import earlier_path, environment_of, readable_records, write_split
from harness.store.left_out import LeftOut
from harness.store.record import Record, RecordError
from harness.store.rules import RUN

STAYS = "the good record of an earlier run stays"


def good_records(pattern: Path) -> list[Record]:
    """The good records at the paths that match a pattern, whose last part alone has wildcards."""
    stored = readable_records(sorted(pattern.parent.glob(pattern.name)), LeftOut(quiet=True))
    return [record for _, record in stored if record["status"] == "ok"]


def outlasts(results: Path, pattern: Path, failure: Mapping[str, Any]) -> bool:
    """Whether a good record that matches a pattern counts more than a failed one, which is then not to be written.

    It does in the same environment, and where data and code are the same: a cell that fails has often loaded fewer
    modules, and has another environment for that alone.
    """
    data = failure.get("dataset", {}).get("sha256")
    good = good_records(pattern)
    same_data = {record["environment"] for record in good if data in (None, record["dataset"].get("sha256"))}
    forget_digests()
    same_place = any(record["environment"] == failure["environment"] for record in good)
    return same_place or any(is_of_todays_code(results, name) for name in sorted(same_data))


def is_of_todays_code(results: Path, environment: str) -> bool:
    """Whether the code that a record's process had loaded is unchanged; False without the environment's file."""
    with suppress(RecordError):
        return is_current(environment_of(results, environment))
    return False


def set_aside(path: Path, run: str) -> None:
    """Write a good record of another run than ``run`` that lies at ``path`` under the name that has its own run.

    The file at ``path`` stays for the new record to replace, so that a good one lies there at any moment.
    """
    for record in good_records(path):
        name = record.get("run", "")
        if name != run and RUN.fullmatch(name):
            write_split(earlier_path(path, name), record)


def was_written(record: Mapping[str, Any]) -> bool:
    """Whether a record of a run has a file; a failure that left a good record in its place has none."""
    return "digest" in record
