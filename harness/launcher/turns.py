"""Turns of the cells of a group: seeded, shuffled rounds, and the number of samples that a cell may take."""

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

T = TypeVar("T")


@dataclass
class Budget:
    """The samples that one cell may still take; ``limits`` is the ``measure`` section of its configuration.

    ``share`` < 1 is one of several fresh processes, which gets that part of the whole.
    """

    limits: Mapping[str, Any]
    share: float = 1.0
    seconds: list[float] = field(default_factory=list)
    disturbed: int = 0

    @property
    def done(self) -> bool:
        """Whether the cell has its samples: ``min_samples``, and then ``max_samples`` or ``max_seconds`` of them."""
        least, most = (-(-int(self.limits[key] * self.share * 1000) // 1000) for key in ("min_samples", "max_samples"))
        if len(self.seconds) < max(1, least):
            return False
        return len(self.seconds) >= most or sum(self.seconds) >= self.limits["max_seconds"] * self.share

    def accepts(self, disturbed: bool) -> bool:
        """Whether a sample counts; the disturbed are repeated, at most ``max_samples`` times."""
        return not disturbed or self.disturbed >= self.limits["max_samples"] * self.share


def shuffled(cells: Sequence[T], seed: str, round_number: int) -> list[T]:
    """Return the cells in the order of one round; equal arguments give equal orders."""
    order = list(cells)
    random.Random(f"{seed} {round_number}").shuffle(order)
    return order
