"""Cells that ran out of memory beside others: each is tried once more alone before ``oom`` is its status."""

from dataclasses import dataclass, field
from typing import Generic, TypeVar

from harness.launcher.failure import CellFailed

Cell = TypeVar("Cell")


@dataclass
class RetryAlone(Generic[Cell]):
    """The cells of one group that wait for their second try, in the order in which they ran out of memory."""

    waiting: list[Cell] = field(default_factory=list)
    tried: set[Cell] = field(default_factory=set)

    def takes(self, cell: Cell, failure: CellFailed, others: int) -> bool:
        """Whether a failure is not the cell's status yet: it ran out of memory while ``others`` had processes.

        What it shared with them says nothing about the cell alone. A second failure is its status, whatever it is.
        """
        if failure.status != "oom" or others <= 0 or cell in self.tried:
            return False
        self.tried.add(cell)
        self.waiting.append(cell)
        return True
