"""Progress of two checkouts that are measured in turns, on stderr."""

import sys
from collections.abc import Sequence
from statistics import geometric_mean
from time import monotonic
from types import TracebackType

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

PLAIN_SECONDS = 60.0


class PairsProgress:
    """Shows steps and pairs, drawn between runs only; where stderr is no terminal, a line at most once a minute."""

    def __init__(self, pairs: int) -> None:
        self.printed = monotonic()
        self.console = Console(file=sys.stderr, soft_wrap=True)
        columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
        self.bar = Progress(
            *columns,
            console=self.console,
            transient=True,
            auto_refresh=False,
            disable=not self.console.is_terminal,
        )
        self.task = self.bar.add_task("pairs", total=pairs)
        self.state = "starting"

    def __enter__(self) -> "PairsProgress":
        self.bar.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.bar.stop()

    def step(self, text: str) -> None:
        """Show what is done now."""
        self.bar.update(self.task, description=f"{self.state}; {text}")
        self.bar.refresh()

    def line(self, text: str) -> None:
        """Show a line of a run that says what it waits for."""
        if text.startswith("waiting"):
            self.console.print(text, markup=False, highlight=False)

    def pair(self, number: int, cells: Sequence[tuple[str, Sequence[float], Sequence[float]]]) -> None:
        """Show the geometric mean of B / A of the first open cell after a number of pairs."""
        self.state = f"{len(cells)} cells open"
        if cells:
            name, a, b = cells[0]
            ratio = geometric_mean([second / first for first, second in zip(a, b, strict=True)])
            self.state = f"{name}: B / A {ratio:.3f}" + (f" (and {len(cells) - 1} more)" if len(cells) > 1 else "")
        self.bar.update(self.task, completed=number, description=self.state)
        self.bar.refresh()
        if self.bar.disable and monotonic() - self.printed > PLAIN_SECONDS:
            self.console.print(f"{number} pairs, {self.state}", markup=False, highlight=False)
            self.printed = monotonic()
