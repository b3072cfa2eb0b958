"""One line of progress on stderr for a run: the cell, its step, its last sample."""

from typing import Any

from harness.terminal.quiet_progress import QuietProgress


class RunProgress(QuietProgress):
    """Shows the events of ``run_groups``; where stderr is no terminal, a line per finished cell and one per minute."""

    def __init__(self, cells: int) -> None:
        super().__init__(cells, "starting")

    def __call__(self, event: dict[str, Any]) -> None:
        """Show one event."""
        cell = f"cell {event['cell'] + 1}"
        if event["event"] == "done":
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
        self.print_sometimes(step)
