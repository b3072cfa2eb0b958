"""The time that one run of a group may take: cells that do not fit it have fewer processes, or are skipped."""

import math
import time
from collections.abc import Collection

from harness.launcher.cell_run import CellRun
from harness.launcher.failure import CellFailed


class Allowance:
    """``measure.group_seconds`` of a run of a group, from its first moment on."""

    def __init__(self, seconds: float) -> None:
        self.seconds, self.begin = seconds, time.monotonic()

    @property
    def left(self) -> float:
        """Seconds that are left."""
        return self.seconds - (time.monotonic() - self.begin)

    def limit(self, cell: CellRun) -> None:
        """End a cell with the group's time until it has samples: from then on its own deadline counts alone."""
        cell.end_by(math.inf if cell.outcome.samples else self.begin + self.seconds)

    def fit(self, cells: Collection[CellRun], calls: int, process: int) -> None:
        """Before their process number ``process`` plan fewer processes of cells, the longest first, until all fit.

        Each also has to fit its own deadline. A cell of which not even the first process fits is skipped; one with
        samples ends with those that it has.
        """
        expected = {cell: expected_seconds(cell, calls, process) for cell in cells if cell.opened is not None}

        def shorten(cell: CellRun) -> bool:
            if cell.processes <= max(process, 1):
                return False
            cell.processes -= 1
            expected[cell] = expected_seconds(cell, calls, process)
            return True

        for cell in expected:
            while expected[cell] > cell.seconds_left and shorten(cell):
                pass
        while expected and sum(expected.values()) > self.left:
            longest = max(expected, key=lambda cell: expected[cell])
            if not shorten(longest):
                seconds = expected.pop(longest)
                if process == 0:
                    longest.fail(CellFailed("timeout", self._sentence(seconds)))

    def _sentence(self, cell_seconds: float) -> str:
        return (
            f"skipped: one process of it takes about {cell_seconds / 60:.2g} minutes, and a group may take "
            f"{self.seconds / 60:.2g} with all of its cells (measure.group_seconds={self.seconds:g}): raise that, or "
            "lower training.epochs"
        )


def expected_seconds(cell: CellRun, calls: int, process: int) -> float:
    """Seconds of a cell from its process number ``process`` to its end; ``calls`` are the counted ones of a turn.

    Training to the end counts with all its epochs, or with as many as it has at least where patience may end it.
    """
    call = cell.warm_call or 0.0
    turn = (calls + 1) * call
    left = cell.processes - process
    # The first opening is the first process's, unless its worker could not live beside the others. The others verify
    # nothing. A cell without a process left is opened once more to end it.
    openings = max(left, 1) - (process == 0 and cell.worker is not None)
    seconds = openings * cell.fresh_seconds + left * cell.budget.expected(turn) * turn
    seconds += call if cell.measure["memory"] else 0.0
    if cell.trains_to_end:
        training = cell.config["training"]
        assert cell.opened is not None
        epochs = min(training["epochs"], training["patience"] + 1) if training["patience"] else training["epochs"]
        seconds += epochs * call * (cell.opened.get("extrapolated") or 1.0)
    return seconds
