"""Validation of the records in a folder; each problem names the file and the key that breaks a rule."""

from collections.abc import Iterator
from functools import cache
from pathlib import Path

from harness.store.files import environment_of, read_record, record_paths, root_and_part
from harness.store.left_out import LeftOut
from harness.store.record import DamagedFile, RecordError
from harness.store.rules import depth_problems


def problems_in(results: Path) -> Iterator[tuple[Path, str]]:
    """Yield (file, sentence) for everything that is wrong with the records below ``results``."""
    unreadable = LeftOut(quiet=True)
    root, part = root_and_part(results)
    environment = cache(lambda name: environment_of(root, name))
    for path in record_paths(results, unreadable):
        try:
            environment(read_record(path)["environment"])
        except RecordError as error:
            own = error.problems if isinstance(error, DamagedFile) and error.path == path else (str(error),)
            yield from ((path, problem) for problem in own)
        yield from ((path, problem) for problem in depth_problems(part / path.relative_to(results)))
    yield from ((folder, problem) for folder, problems in unreadable.files.items() for problem in problems)
