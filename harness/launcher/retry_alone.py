"""Cells that ran out of memory beside others: each is tried once more alone before ``oom`` is its status."""

from collections.abc import Hashable
from dataclasses import dataclass, field

from harness.launcher.failure import CellFailed


@dataclass
class RetryAlone:
    """The cells of one group that wait for their second try, in the order in which they ran out of memory."""

    waiting: list[Hashable] = field(default_factory=list)
    tried: set[Hashable] = field(default_factory=set)

    def takes(self, cell: Hashable, failure: CellFailed, others: int) -> bool:
        """Whether a failure is not the cell's status yet: it ran out of memory while ``others`` had processes.

        What it shared with them says nothing about the cell alone. A second failure is its status, whatever it is.
        """
        if failure.status != "oom" or others <= 0 or cell in self.tried:
            return False
        self.tried.add(cell)
        self.waiting.append(cell)
        return True

    def next(self) -> Hashable | None:
        """Take the next cell that is to be measured alone; None when there is none."""
        return self.waiting.pop(0) if self.waiting else None
