"""The factor of two versions measured in different runs: ratios to what ran beside them, over processes.

The values are logarithms, one per process: time of the cell over the geometric mean of the cells beside it. Processes
of both versions have the same spread, so Student's interval takes it from both. Engines that ran in the same passes
are pairs of processes, whose logarithms need no others. Of cells that are compared at once, those differ that Benjamini
and Hochberg (1995) select: in folders without a difference, any with probability ``ERROR``.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil, exp, inf, log, sqrt

import numpy as np
from numpy.typing import NDArray
from scipy.special import stdtr, stdtrit

from harness.compare.factor import FASTER, SLOWER, UNDECIDED, Factor, judge_with_doubt

IN_TURNS = "python -m harness compare --run OLD NEW"
MORE = f"measure more, or {IN_TURNS}"
ERROR = 0.02
LARGEST_LOG = 700.0  # of a number that a float can hold; an interval that reaches further has no end


@dataclass(frozen=True)
class Change:
    """Mean change of one cell's logarithm, its standard error, and the degrees of freedom of that error."""

    mean: float
    error: float
    freedom: int
    n: int

    @property
    def chance(self) -> float:
        """Probability of a change as large as this one, in either direction, where there is none."""
        if self.freedom == 0:
            return 1.0
        if self.error == 0:
            return float(self.mean == 0)
        return float(2 * stdtr(self.freedom, -abs(self.mean) / self.error))

    def factor(self) -> Factor:
        """The change as a factor, with an interval that misses it with probability ``ERROR``."""
        width = inf if self.freedom == 0 else float(stdtrit(self.freedom, 1 - ERROR / 2)) * self.error
        low, high = (exp(min(end, LARGEST_LOG)) for end in (self.mean - width, self.mean + width))
        return Factor(exp(self.mean), low, inf if high == exp(LARGEST_LOG) else high, self.n)


def change_of(a: Sequence[float], b: Sequence[float]) -> Change:
    """Change from the processes of A to those of B; without any freedom where each side has one process."""
    return change_of_seeds([(a, b)])


def change_of_seeds(seeds: Sequence[tuple[Sequence[float], Sequence[float]]]) -> Change:
    """Mean change over seeds, each with its processes of A and of B: what differs between seeds is no error.

    Where each has one process of both, seeds are pairs of processes.
    """
    changes = [float(np.mean(b) - np.mean(a)) for a, b in seeds]
    sides = [np.asarray(side) for seed in seeds for side in seed]
    freedom = sum(len(side) - 1 for side in sides)
    if freedom == 0 and len(seeds) > 1:
        return change_of_pairs(np.exp(changes))
    variance = sum(float(np.square(side - side.mean()).sum()) for side in sides) / max(freedom, 1)
    error = sqrt(variance * sum(1 / len(side) for side in sides)) / len(seeds) if freedom else inf
    count = min(sum(len(seed[side]) for seed in seeds) for side in (0, 1))
    return Change(float(np.mean(changes)), error, freedom, count)


def change_of_pairs(ratios: Sequence[float] | NDArray[np.float64]) -> Change:
    """Change from the ratios B / A of pairs of processes; without any freedom where there is one pair."""
    logs = np.log(ratios)
    freedom = len(logs) - 1
    error = float(np.std(logs, ddof=1)) / sqrt(len(logs)) if freedom else inf
    return Change(float(np.mean(logs)), error, freedom, len(logs))


def different(changes: Sequence[Change]) -> list[bool]:
    """Which of the cells that are judged together differ; all of them together err with probability ``ERROR``."""
    chances = sorted(change.chance for change in changes)
    steps = [ERROR * (rank + 1) / len(chances) for rank in range(len(chances))]
    level = max((step for chance, step in zip(chances, steps, strict=True) if chance <= step), default=0.0)
    return [change.chance <= level for change in changes]


def judge_together(changes: Sequence[Change], threshold: float, remedy: str = MORE) -> list[tuple[Factor, str, str]]:
    """Factor, verdict and reason of each of the cells that are judged together; ``remedy`` ends a doubt."""
    return [
        (change.factor(), *_judged(change.factor(), differs, threshold, remedy))
        for change, differs in zip(changes, different(changes), strict=True)
    ]


def _judged(factor: Factor, differs: bool, threshold: float, remedy: str) -> tuple[str, str]:
    verdict = judge_with_doubt(factor, threshold)
    if verdict in (SLOWER, FASTER) and not differs:
        return UNDECIDED, f"among so many cells some look like this by chance: {remedy}"
    if verdict != UNDECIDED:
        return verdict, ""
    if factor.high == inf:
        return verdict, f"one process of each does not show how processes differ: {remedy}"
    return verdict, f"about {processes_needed(factor, threshold)} processes of each would decide: {remedy}"


def processes_needed(factor: Factor, threshold: float) -> int:
    """About how many processes each side needs for an interval that reaches no further than the threshold."""
    return ceil(factor.n * (log(factor.high / factor.low) / 2 / log(threshold)) ** 2)
