"""Progress of command lines on stderr: a bar per step, with the time that is left."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Protocol

from datasets.tables.out_of_core import Progress, silent

__all__ = ["Announce", "NotedProgress", "Progress", "announce", "announce_nothing", "gibibytes", "silent",
           "step_progress"]  # fmt: skip

Announce = Callable[[str], None]


class NotedProgress(Protocol):
    """A ``Progress`` with a note, such as the loss of an epoch, beside the step's name."""

    def __call__(self, step: str, done: int, total: int, note: str = "") -> None:
        """Report that ``done`` of ``total`` parts of a step are done."""
        ...


def announce(text: str) -> None:
    """Print a sentence on stderr, above the bars."""
    print(text, file=sys.stderr)


def announce_nothing(text: str) -> None:
    """Print nothing."""


def gibibytes(size: float) -> str:
    """A number of bytes as text, at three digits."""
    return f"{size / 2**30:.3g} GiB"


@contextmanager
def step_progress() -> Iterator[NotedProgress]:
    """Yield ``progress(step, done, total, note)``; the first call of a step adds its bar."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn, TimeRemainingColumn
    from rich.progress import Progress as Bars

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TextColumn("left"),
        TimeRemainingColumn(),
    )
    with Bars(*columns, console=Console(stderr=True)) as bars:
        tasks: dict[str, Any] = {}

        def progress(step: str, done: int, total: int, note: str = "") -> None:
            if step not in tasks:
                tasks[step] = bars.add_task(step, total=total)
            bars.update(tasks[step], completed=done, total=total, description=f"{step} {note}".rstrip())

        yield progress
