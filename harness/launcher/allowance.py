"""The time that one run of a group may take: cells that cannot fit it are skipped, with a sentence in their records."""

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
        """Bring the deadline of a cell forward to the end of the group's time."""
        cell.left = min(cell.left, self.left)
        if cell.worker is not None:
            cell.worker.left = min(cell.worker.left, self.left)

    def skip_what_does_not_fit(self, cells: Collection[CellRun], calls: int, process: int) -> None:
        """Skip cells before their process number ``process``, the longest first, until all others fit what is left."""
        expected = {cell: expected_seconds(cell, calls, process) for cell in cells}
        while expected and sum(expected.values()) > self.left:
            longest = max(expected, key=lambda cell: expected[cell])
            whole = sum(expected.values())
            cell_seconds = expected.pop(longest)
            longest.fail(CellFailed("timeout", self._sentence(cell_seconds, whole)))

    def _sentence(self, cell_seconds: float, whole: float) -> str:
        return (
            f"skipped: it would take about {cell_seconds / 60:.0f} of the {whole / 60:.0f} minutes that its group "
            f"needs, and a group may take {self.seconds / 60:.0f} (measure.group_seconds={self.seconds:g}): raise "
            "that, or lower measure.processes or training.epochs"
        )


def expected_seconds(cell: CellRun, calls: int, process: int) -> float:
    """Seconds that the processes of a cell from number ``process`` on will take; ``calls`` are counted ones of a turn.

    Training to the end counts with all its epochs unless patience may end it before.
    """
    call = cell.warm_call or 0.0
    turn = (calls + 1) * call
    left = cell.processes - process
    # The first opening is over, or was the first process's; the others verify nothing.
    seconds = (left - (process == 0)) * cell.fresh_seconds + left * cell.budget.expected(turn) * turn
    scenario, training = cell.config["scenario"], cell.config["training"]
    if scenario["name"] == "train" and scenario["train_to_end"] and not training["patience"]:
        assert cell.opened is not None
        seconds += training["epochs"] * call * (cell.opened.get("extrapolated") or 1.0)
    return seconds
