"""Progress of two checkouts that are measured in turns, on stderr."""

from collections.abc import Sequence
from statistics import geometric_mean

from harness.terminal.quiet_progress import QuietProgress


class PairsProgress(QuietProgress):
    """Shows steps and pairs, drawn between runs only; where stderr is no terminal, a line at most once a minute."""

    def __init__(self, pairs: int) -> None:
        super().__init__(pairs, "pairs")
        self.state = "starting"

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
        self.print_sometimes(f"{number} pairs, {self.state}")
