"""Files that a command leaves out: each is named on stderr with its faults, and the exit code says so."""

import sys
from collections.abc import Sequence
from pathlib import Path

from harness.usage import FAILED, OK

MOST = 5


class LeftOut:
    """Collects the damaged files that one command met; the same file is named once."""

    def __init__(self, quiet: bool = False) -> None:
        self.files: dict[Path, tuple[str, ...]] = {}
        self.quiet = quiet

    def add(self, path: Path, problems: Sequence[str]) -> None:
        """Leave a file out, and print its first problems."""
        if path in self.files:
            return
        self.files[path] = tuple(problems)
        if self.quiet:
            return
        for problem in problems[:MOST]:
            print(f"left out: {ascii(str(path))[1:-1]}: {problem}", file=sys.stderr)
        if len(problems) > MOST:
            print(f"left out: {ascii(str(path))[1:-1]}: {len(problems) - MOST} more problems", file=sys.stderr)

    def exit_code(self) -> int:
        """1 when a file was left out, after a sentence that says how many; else 0."""
        if not self.files:
            return OK
        what = "1 file was" if len(self.files) == 1 else f"{len(self.files)} files were"
        print(f"{what} left out: delete them, or restore them from git, and measure these cells again", file=sys.stderr)
        return FAILED
