"""The hash of a data set as its files are today, which says whether a record is of these data."""

from pathlib import Path

from datasets.hashes import combined_sha256, stored_sha256
from datasets.paths import find_files
from datasets.prepare import known_sha256
from datasets.registry import entry_of
from harness.planning.schema import DatasetConfig


def todays_sha256(dataset: DatasetConfig, cache: Path) -> str | None:
    """The hash of a data set that was read before, else that of its files and options.

    ``None`` where only reading would tell: of generated graphs and user tables that nothing has read, and where no
    files are.
    """
    known, entry = known_sha256(dataset, cache), entry_of(dataset.name)
    if known is not None or entry.kind != "real":
        return known
    for needs in (entry.needs, *entry.also):
        if files := find_files(dataset.name, entry.family, needs, cache):
            changed = {key: value for key, value in dataset.options.items() if value != entry.options.get(key)}
            return combined_sha256({need: stored_sha256(path) for need, path in files.items()}, changed)
    return None
