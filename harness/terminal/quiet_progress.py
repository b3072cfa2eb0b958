"""A progress bar on stderr that disturbs no measurement: it is drawn at events only, and no thread draws it."""

import sys
from time import monotonic
from types import TracebackType
from typing import Self

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

PLAIN_SECONDS = 60.0


class QuietProgress:
    """One bar with a description; where stderr is no terminal, a plain line at most once a minute."""

    def __init__(self, total: int, description: str) -> None:
        self.printed = monotonic()
        self.console = Console(file=sys.stderr, soft_wrap=True)
        self.bar = Progress(
            *(TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn()),
            console=self.console,
            transient=True,
            auto_refresh=False,
            disable=not self.console.is_terminal,
        )
        self.task = self.bar.add_task(description, total=total)

    def __enter__(self) -> Self:
        self.bar.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.bar.stop()

    def print_sometimes(self, text: str) -> None:
        """Print a line where there is no terminal, unless one was printed less than a minute ago."""
        if self.bar.disable and monotonic() - self.printed > PLAIN_SECONDS:
            self.console.print(text, markup=False, highlight=False)
            self.printed = monotonic()
