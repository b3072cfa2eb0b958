"""One line of progress on stderr for a run: the cell, its step, its last sample."""

import sys
from time import monotonic
from types import TracebackType
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

PLAIN_SECONDS = 60.0


class RunProgress:
    """Shows the events of ``run_groups``; where stderr is no terminal, a line per finished cell and one per minute."""

    def __init__(self, cells: int) -> None:
        self.printed = monotonic()
        self.console = Console(file=sys.stderr, soft_wrap=True)
        columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
        # Drawn at events only, which come between samples: a thread that draws would disturb the samples.
        self.bar = Progress(
            *columns,
            console=self.console,
            transient=True,
            auto_refresh=False,
            disable=not self.console.is_terminal,
        )
        self.task = self.bar.add_task("starting", total=cells)

    def __enter__(self) -> "RunProgress":
        self.bar.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.bar.stop()

    def __call__(self, event: dict[str, Any]) -> None:
        """Show one event."""
        cell = f"cell {event['cell'] + 1}"
        if event["event"] == "waiting":
            self.console.print(f"waiting: {event['for']} is measuring on this machine", markup=False)
        elif event["event"] == "done":
            self.console.print(f"{event['status']:<12} {event['path']}", markup=False, highlight=False)
            self.bar.advance(self.task)
        elif "seconds" in event:
            sample = f"sample {event.get('samples', '')}".strip()
            self._describe(f"{cell}: {sample}, {event['seconds']:.4g} s")
        else:
            self._describe(f"{cell}: {event['event']}")
        self.bar.refresh()

    def _describe(self, step: str) -> None:
        self.bar.update(self.task, description=step)
        if self.bar.disable and monotonic() - self.printed > PLAIN_SECONDS:
            self.console.print(step, markup=False, highlight=False)
            self.printed = monotonic()
