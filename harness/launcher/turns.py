"""Turns of the cells of a group: seeded, shuffled rounds, the calls of a turn, and how many samples a process takes."""

import math
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

T = TypeVar("T")


@dataclass
class Budget:
    """The samples that one process may still take; ``limits`` is the ``measure`` section of its cell's configuration.

    The limits are those of all processes of the cell together. ``used_seconds`` counts those of all turns, discarded
    calls and disturbed samples included.
    """

    limits: Mapping[str, Any]
    seconds: list[float] = field(default_factory=list)
    used_seconds: float = 0.0
    disturbed: int = 0

    @property
    def least(self) -> int:
        """Samples that the process takes at least."""
        return -(-int(self.limits["min_samples"]) // int(self.limits["processes"]))

    @property
    def most(self) -> int:
        """Samples that the process takes at most."""
        return -(-int(self.limits["max_samples"]) // int(self.limits["processes"]))

    @property
    def longest(self) -> float:
        """Seconds after which the process takes no more than its least samples."""
        return float(self.limits["max_seconds"]) / int(self.limits["processes"])

    @property
    def done(self) -> bool:
        """Whether the process has its samples: the least, and then the most or those of its seconds."""
        if len(self.seconds) < self.least:
            return False
        return len(self.seconds) >= self.most or self.used_seconds >= self.longest

    def accepts(self, disturbed: bool) -> bool:
        """Whether a sample counts; disturbed ones are repeated while number and time of the repetitions allow it."""
        return not disturbed or self.disturbed >= self.most or self.used_seconds >= self.longest

    def expected(self, turn: float) -> int:
        """Samples that the process will take when a turn takes ``turn`` seconds and nothing disturbs it."""
        fitting = self.most if turn <= 0 else math.ceil(min(self.longest / turn, self.most))
        return max(self.least, min(self.most, fitting))


def calls_of_a_turn(warm_calls: Sequence[float], limits: Mapping[str, Any]) -> int:
    """Return the counted calls of every turn of a group from the seconds of a warm call of each cell.

    The shortest cell's calls last ``repeat_seconds`` together, as far as the turn of the longest one, with its
    discarded call, stays within ``turn_seconds``; at least one call.
    """
    if not warm_calls or max(warm_calls) <= 0:
        return 1
    repeated = float(limits["repeat_seconds"]) / max(min(warm_calls), 1e-9)
    allowed = float(limits["turn_seconds"]) / max(warm_calls) - 1
    return max(1, min(math.ceil(repeated), math.floor(allowed)))


def shuffled(cells: Sequence[T], seed: str, round_number: int) -> list[T]:
    """Return the cells in the order of one round; equal arguments give equal orders."""
    order = list(cells)
    random.Random(f"{seed} {round_number}").shuffle(order)
    return order
