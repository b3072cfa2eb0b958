"""Statistics derived from raw samples: robust centres, bootstrap intervals, ratios that exist only inside a group.

The unit of an interval is a process (one cell, one seed), never an epoch: epochs of one process share its memory
layout and the state of its machine. With fewer than three processes the spread inside them is given (kind ``spread``).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Values = Sequence[float] | NDArray[np.floating]
RESAMPLES = 2000
LEVEL = 0.95
ENOUGH = 3
OUTLIER = 3.5


@dataclass(frozen=True)
class Summary:
    """A centre with its uncertainty; ``n`` counts processes (or groups, for a ratio).

    ``kind`` is ``"interval"`` (95 % bootstrap over processes) or ``"spread"`` (p10 to p90 inside the processes).
    """

    median: float
    low: float
    high: float
    n: int
    kind: str

    def scaled(self, factor: float) -> "Summary":
        """Convert to another unit."""
        return Summary(self.median * factor, self.low * factor, self.high * factor, self.n, self.kind)


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


def interval(values: Values, seed: int = 0) -> tuple[float, float]:
    """95 % percentile bootstrap interval of the median over independent values (Efron and Tibshirani 1993)."""
    array = _checked(values)
    drawn = array[_draws(len(array), seed)]
    low, high = np.percentile(np.median(drawn, axis=1), _tails())
    return float(low), float(high)


def summarize(processes: Sequence[Values], seed: int = 0) -> Summary:
    """Summarize the samples of several processes by the median of their medians."""
    centres = [median(samples) for samples in processes]
    centre = median(centres)
    if len(centres) >= ENOUGH:
        return Summary(centre, *interval(centres, seed), n=len(centres), kind="interval")
    pooled = np.concatenate([_checked(samples) for samples in processes])
    return Summary(centre, percentile(pooled, 10), percentile(pooled, 90), n=len(centres), kind="spread")


def paired_ratio(above: Mapping[str, Values], below: Mapping[str, Values], seed: int = 0) -> Summary | None:
    """Ratio above / below over the groups that hold both; ``None`` when no group does.

    Per group the ratio of medians, over groups their median. With fewer than three groups the interval is the
    bootstrap over the rounds of the groups: the noise inside processes, not between them (kind ``spread``).
    """
    shared = sorted(set(above) & set(below))
    if not shared:
        return None
    ratios = [median(above[group]) / median(below[group]) for group in shared]
    if len(ratios) >= ENOUGH:
        return Summary(median(ratios), *interval(ratios, seed), n=len(ratios), kind="interval")
    drawn = [_ratio_draws(above[group], below[group], seed + i) for i, group in enumerate(shared)]
    low, high = np.percentile(np.median(np.stack(drawn), axis=0), _tails())
    return Summary(median(ratios), float(low), float(high), n=len(ratios), kind="spread")


def independent_ratio(above: Sequence[Values], below: Sequence[Values], seed: int = 0) -> Summary:
    """Ratio above / below of processes that were not measured together, as ``compare`` needs it; n is the smaller."""
    n = min(len(above), len(below))
    if n < ENOUGH:
        pooled = [np.concatenate([_checked(samples) for samples in side]) for side in (above, below)]
        drawn, kind = _ratio_draws(pooled[0], pooled[1], seed), "spread"
    else:
        centres = [[median(samples) for samples in side] for side in (above, below)]
        drawn, kind = _ratio_draws(centres[0], centres[1], seed), "interval"
    centre = median([median(samples) for samples in above]) / median([median(samples) for samples in below])
    low, high = np.percentile(drawn, _tails())
    return Summary(centre, float(low), float(high), n, kind)


def outliers(values: Values) -> list[int]:
    """Positions of values with a modified z-score above 3.5 (Iglewicz and Hoaglin 1993), which tables name but keep."""
    array = _checked(values)
    scale = mad(array)
    if scale == 0:
        return []
    return [int(i) for i in np.flatnonzero(np.abs(0.6745 * (array - np.median(array)) / scale) > OUTLIER)]


def _ratio_draws(above: Values, below: Values, seed: int) -> NDArray[np.floating]:
    """Bootstrap the ratio of two medians, each side drawn on its own, [RESAMPLES]."""
    top, bottom = _checked(above), _checked(below)
    centres = np.median(top[_draws(len(top), seed)], axis=1)
    ratios: NDArray[np.floating] = centres / np.median(bottom[_draws(len(bottom), seed + 1_000_003)], axis=1)
    return ratios


def _draws(count: int, seed: int) -> NDArray[np.int64]:
    return np.random.Generator(np.random.Philox(key=seed)).integers(0, count, (RESAMPLES, count))


def _tails() -> tuple[float, float]:
    return 50 * (1 - LEVEL), 100 - 50 * (1 - LEVEL)


def _checked(values: Values) -> NDArray[np.float64]:
    array = np.asarray(values, dtype=np.float64)
    if array.ndim != 1 or not len(array) or not np.isfinite(array).all():
        raise ValueError(f"statistics of shape {array.shape}: allowed is one row of at least one finite number")
    return array
