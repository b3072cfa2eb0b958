"""Statistics derived from raw samples: robust centres, intervals by order statistics, ratios inside a group.

The unit of an interval is a process, never a sample: samples of one process share its memory layout and the state of
its machine. The interval of one process would have no coverage: the spread inside it is given (kind ``spread``).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from math import comb, exp, pi, sqrt

import numpy as np
from numpy.typing import NDArray

Values = Sequence[float] | NDArray[np.floating]
LEVEL = 0.95
OUTLIER = 3.5
WIDEST = 300.0  # logarithm of the largest factor of an interval


@dataclass(frozen=True)
class Summary:
    """A centre with its uncertainty; ``n`` counts processes, or pairs of processes for a ratio.

    ``kind`` is ``"interval"`` (between order statistics of the processes, which holds the true median with probability
    ``coverage``) or ``"spread"`` (10th to 90th percentile inside one process, without a coverage). ``again`` is the
    interval of a second run, as of ``interval_of_another_run``.
    """

    median: float
    low: float
    high: float
    n: int
    kind: str
    coverage: float | None = None
    again: tuple[float, float] | None = None

    def scaled(self, factor: float) -> "Summary":
        """Convert to another unit."""
        again = None if self.again is None else (self.again[0] * factor, self.again[1] * factor)
        return replace(self, median=self.median * factor, low=self.low * factor, high=self.high * factor, again=again)

    def inverse(self) -> "Summary":
        """Turn a ratio round: the same statement on below / above."""
        again = None if self.again is None else (1 / self.again[1], 1 / self.again[0])
        return replace(self, median=1 / self.median, low=1 / self.high, high=1 / self.low, again=again)


def median(values: Values) -> float:
    """Median of the values."""
    return float(np.median(_checked(values)))


def mad(values: Values) -> float:
    """Median absolute deviation from the median, unscaled."""
    array = _checked(values)
    return float(np.median(np.abs(array - np.median(array))))


def percentile(values: Values, percent: float) -> float:
    """Percentile (0 to 100) with linear interpolation."""
    return float(np.percentile(_checked(values), percent))


def geometric_mean(values: Values) -> float:
    """Geometric mean of positive values; the mean that does not depend on which side of a ratio is the base."""
    array = _checked(values)
    if (array <= 0).any():
        raise ValueError(f"geometric mean of {array.min()}: allowed are positive values")
    return float(np.exp(np.log(array).mean()))


def interval(values: Values) -> tuple[float, float, float]:
    """Interval of the median over independent values, and its coverage (order statistics, Thompson 1936).

    The coverage is exact for every continuous distribution: at least 95 % from six values on, less below.
    """
    ordered = np.sort(_checked(values))
    rank, coverage = _rank(len(ordered))
    return float(ordered[rank]), float(ordered[-1 - rank]), coverage


@cache
def _rank(count: int) -> tuple[int, float]:
    """Values outside either end of the narrowest interval with 95 % coverage, else of the widest, and the coverage."""
    outside, rank = 1, 0  # ways in which at most ``rank`` of ``count`` fair coins show heads
    while 2 * (rank + 1) < count:
        more = outside + comb(count, rank + 1)
        if 2 * more > (1 - LEVEL) * 2**count:
            break
        outside, rank = more, rank + 1
    return rank, 1 - 2 * outside / 2**count


def interval_of_another_run(values: Values) -> tuple[float, float] | None:
    """Interval that holds the median of a second run of as many processes with a probability of 97.5 %.

    Of two runs alike each then has its median in the other's interval with at least 95 %. None for fewer than three
    values, and where one is not positive.

    The interval of the median is no statement on a second run: of 100 runs alike, of five processes each, 83 have their
    median in the interval of a first run. Student's interval of a future median, on logarithms, as the processes of a
    run vary by factors: both medians scatter, each by sqrt(pi / 2 n) standard deviations of a process.
    """
    array = _checked(values)
    if len(array) < 3 or (array <= 0).any():
        return None
    # Not imported above: the command line's help needs no SciPy.
    from scipy.special import stdtrit

    count, centre = len(array), float(np.median(array))
    spread = stdtrit(count - 1, 1 - (1 - LEVEL) / 4) * np.log(array).std(ddof=1) * sqrt(pi / count)
    factor = exp(min(spread, WIDEST))
    return centre / factor, centre * factor


def summarize(processes: Sequence[Values]) -> Summary:
    """Summarize the samples of several processes by the median of their medians."""
    centres = [median(samples) for samples in processes]
    if len(centres) == 1:
        return _spread(processes[0], centres[0])
    low, high, coverage = interval(centres)
    again = interval_of_another_run(centres)
    return Summary(median(centres), low, high, len(centres), "interval", coverage, again)


def ratios_of_pairs(above: Mapping[str, Values], below: Mapping[str, Values]) -> list[float]:
    """Ratio of the medians above / below for each process of one pass that both hold."""
    return [median(above[process]) / median(below[process]) for process in sorted(set(above) & set(below))]


def paired_ratio(above: Mapping[str, Values], below: Mapping[str, Values]) -> Summary | None:
    """Ratio above / below over the processes of one pass that both hold; ``None`` when there is no such pair.

    Per pair the ratio of medians, over the pairs their median. With a single pair the spread is that of the ratios of
    samples in the order in which they were taken.
    """
    ratios = ratios_of_pairs(above, below)
    if not ratios:
        return None
    if len(ratios) == 1:
        (process,) = set(above) & set(below)
        rounds = zip(_checked(above[process]), _checked(below[process]), strict=False)
        return _spread([one / other for one, other in rounds], ratios[0])
    low, high, coverage = interval(ratios)
    again = interval_of_another_run(ratios)
    return Summary(median(ratios), low, high, len(ratios), "interval", coverage, again)


def _spread(samples: Values, centre: float) -> Summary:
    """The centre of one process with the spread of its samples, which the centre is never outside of."""
    ends = percentile(samples, 10), percentile(samples, 90)
    return Summary(centre, min(centre, ends[0]), max(centre, ends[1]), 1, "spread")


def outliers(values: Values) -> list[int]:
    """Positions of values with a modified z-score above 3.5 (Iglewicz and Hoaglin 1993), which tables name but keep."""
    array = _checked(values)
    scale = mad(array)
    if scale == 0:
        return []
    return [int(i) for i in np.flatnonzero(np.abs(0.6745 * (array - np.median(array)) / scale) > OUTLIER)]


def _checked(values: Values) -> NDArray[np.float64]:
    array = np.asarray(values, dtype=np.float64)
    if array.ndim != 1 or not len(array) or not np.isfinite(array).all():
        raise ValueError(f"statistics of shape {array.shape}: allowed is one row of at least one finite number")
    return array
