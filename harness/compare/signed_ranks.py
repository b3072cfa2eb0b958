"""The factor of two versions measured in pairs, and when there are enough pairs.

Each pair is one run of either version; its log ratio is symmetric about the true one whatever the noise of the runs,
as the order within the pairs alternates. The centre is that of Hodges and Lehmann (1963), the interval that of
Wilcoxon's signed ranks: exact for every symmetric noise, and a pair that something else disturbed moves it little.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np
from numpy.typing import NDArray

from harness.compare.factor import THRESHOLD, UNDECIDED, Factor, check_threshold, judge_with_doubt
from harness.usage import UsageError

PAIRS = 32
FEWEST = 8
MOST = 1000
# At each of at most three looks at most 0.8 % of identical pairs are called different, so together fewer than 1 in 40.
LOOK_ERROR = 0.008
LOOKS = 3


@dataclass(frozen=True)
class SequentialRule:
    """When to look at the pairs, and what they then say.

    A verdict falls at the first of ``looks`` at which the factor is significant, or a factor of the threshold's square
    is left out in both directions; what is open after the last look stays undecided.
    """

    pairs: int = PAIRS
    threshold: float = THRESHOLD

    def __post_init__(self) -> None:
        """Raise ValueError for a number of pairs or a threshold with which no verdict is possible."""
        if not FEWEST <= self.pairs <= MOST or self.pairs % 2:
            allowed = f"an even number from {FEWEST} to {MOST}"
            raise ValueError(f"--pairs {self.pairs} is not allowed: give {allowed}, so that each version comes first")
        check_threshold(self.threshold)

    def check(self, cells: int) -> None:
        """Raise UsageError where so many cells, judged side by side, need more pairs for a verdict on any."""
        fewest = self.pairs
        while not extreme_averages(fewest, LOOK_ERROR / max(cells, 1)):
            fewest += 2
        if fewest > self.pairs:
            raise UsageError(
                f"--pairs {self.pairs} cannot tell {cells} cells apart from chance: give at least {fewest}, or name "
                "fewer cells"
            )

    @property
    def looks(self) -> tuple[int, ...]:
        """Numbers of pairs after which there may be a verdict: the last, its half and its quarter, all even."""
        counts = {2 * round(self.pairs / 2 ** (halvings + 1)) for halvings in range(LOOKS)}
        return tuple(sorted(count for count in counts if count >= FEWEST))

    def verdict(self, ratios: Sequence[float], cells: int = 1) -> tuple[Factor, str] | None:
        """Judge the ratios B / A of the pairs so far; ``None`` when more pairs are needed.

        ``cells`` that are judged side by side share the error of a look.
        """
        if len(ratios) not in self.looks:
            return None
        factor = factor_of_pairs(ratios, LOOK_ERROR / cells)
        verdict = judge_with_doubt(factor, self.threshold)
        return None if verdict == UNDECIDED and len(ratios) < self.looks[-1] else (factor, verdict)


def factor_of_pairs(ratios: Sequence[float], error: float) -> Factor:
    """Centre and interval of paired ratios; the interval misses the true factor with probability ``error`` or less.

    Too few pairs for that error have an interval without ends.
    """
    logs = np.log(np.asarray(ratios, dtype=np.float64))
    first, second = np.triu_indices(len(logs))
    averages = np.sort((logs[first] + logs[second]) / 2)
    outside = extreme_averages(len(logs), error)
    low, high = (averages[outside - 1], averages[-outside]) if outside else (-np.inf, np.inf)
    centre = float(np.exp(np.median(averages)))
    return Factor(centre, float(np.exp(low)), float(np.exp(high)), len(logs))


@cache
def extreme_averages(pairs: int, error: float) -> int:
    """Number k such that the k-th smallest and the k-th largest pairwise average are the ends of the interval."""
    below = np.cumsum(_rank_sums(pairs))
    return int(np.searchsorted(below, error / 2, side="right"))


def _rank_sums(pairs: int) -> NDArray[np.float64]:
    """Probability of each sum of the positive ranks when every sign is a fair coin, [pairs (pairs + 1) / 2 + 1]."""
    shares = np.zeros(pairs * (pairs + 1) // 2 + 1)
    shares[0] = 1.0
    for rank in range(1, pairs + 1):
        shares[rank:] = (shares[rank:] + shares[:-rank]) / 2
        shares[:rank] /= 2
    return shares
