"""Shapes of samples that make their median a doubtful figure: two modes, drift, many outliers, wide scatter.

Each is tested so that noise of one mode is named in fewer than 1 % of cases: see the tests.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from harness.store.statistics import Values, mad, median, outliers

SMALLEST_MODE = 0.2  # share of the values in the smaller of two modes
FEW = 3  # values, of which one may be a mode of its own
SMALLEST_GAP = np.log(1.10)  # between two modes
WIDE_GAP = np.log(1.5)  # between two or three processes, whose scatter is not known
# A gap this many times the scatter inside the modes: in fewer than 0.5 % of normal samples of any size (simulated).
GAP_IN_SCATTERS, GAP_OF_FEW = 4.0, 80.0
DRIFT_SCORE = 3.5  # of a rank correlation times the square root of n - 1
SMALLEST_DRIFT = 0.05
MANY_OUTLIERS = 0.25  # of the samples
FAR = 1.25  # factor between a process and the median


@dataclass(frozen=True)
class Doubt:
    """What is wrong with a figure in two words, in a sentence with the numbers, and what to try next."""

    name: str
    sentence: str
    remedy: str

    def __str__(self) -> str:
        return f"{self.name}: {self.sentence}; try {self.remedy}"


def doubts(processes: Sequence[Values]) -> list[Doubt]:
    """Name every shape of the samples of some processes that makes their median doubtful."""
    modes = two_modes(processes)
    # The samples of the smaller mode are far from the median as well: that is said already.
    others = (drift(processes), None if modes else many_outliers(processes))
    named = [doubt for doubt in (modes, *others) if doubt is not None]
    scatter = wide_scatter(processes)
    return named or ([scatter] if scatter else [])


def two_modes(processes: Sequence[Values]) -> Doubt | None:
    """Samples that lie in two clusters: the median is in the gap between them, or one run away from the other side."""
    logs = [np.log(np.asarray(samples, dtype=np.float64)) for samples in processes]
    ordered = np.sort(np.concatenate(logs))
    least = 1 if len(ordered) <= FEW else max(2, int(np.ceil(SMALLEST_MODE * len(ordered))))
    split = _largest_gap(ordered, least)
    if split is None:
        return None
    border = (ordered[split - 1] + ordered[split]) / 2
    if not _apart(logs, ordered, split, border):
        return None
    low, high = (float(np.exp(np.median(part))) for part in (ordered[:split], ordered[split:]))
    counts = f"{low:.3g} s ({split} samples) and {high:.3g} s ({len(ordered) - split})"
    return Doubt("two modes", f"samples lie near {counts}", "launcher.allocator=stock or measure.processes=11")


def _largest_gap(ordered: NDArray[np.float64], least: int) -> int | None:
    """Position of the first value above the largest gap that leaves ``least`` values on either side."""
    if len(ordered) < 2 * least:
        return None
    gaps = np.diff(ordered)[least - 1 : len(ordered) - least]
    return int(np.argmax(gaps)) + least if len(gaps) else None


def _apart(logs: Sequence[NDArray[np.float64]], ordered: NDArray[np.float64], split: int, border: float) -> bool:
    """Whether the gap is too large for one mode, by the scatter of processes or, where one is in both, of samples."""
    shares = [float(np.mean(samples > border)) for samples in logs]
    if not any(SMALLEST_MODE <= share <= 1 - SMALLEST_MODE for share in shares):
        centres = np.sort([np.median(samples) for samples in logs])
        above = int(np.sum(centres > border))
        if min(above, len(centres) - above) < (1 if len(centres) <= FEW else 2):
            return False
        values, place = centres, len(centres) - above
    else:
        values, place = ordered, split
    gap = values[place] - values[place - 1]
    if len(values) <= FEW:
        return bool(gap >= WIDE_GAP) and len(logs) > 1
    parts = (values[:place], values[place:])
    scatter = np.sqrt(sum(np.sum((part - part.mean()) ** 2) for part in parts) / (len(values) - 2))
    return bool(gap >= max(SMALLEST_GAP, max(GAP_IN_SCATTERS, GAP_OF_FEW / len(values)) * scatter))


def drift(processes: Sequence[Values]) -> Doubt | None:
    """Samples that grow or shrink from round to round inside their processes, or from one process to the next."""
    arrays = [np.asarray(samples, dtype=np.float64) for samples in processes]
    rounds = np.concatenate([np.arange(len(samples)) for samples in arrays])
    relative = np.concatenate([samples / np.median(samples) for samples in arrays])
    change = _significant_change(rounds, relative)
    if change is not None:
        return Doubt("drift", f"samples change by {change:+.0%} inside a process", "measure.warmup=10")
    centres = np.array([np.median(samples) for samples in arrays])
    change = _significant_change(np.arange(len(centres)), centres / np.median(centres))
    if change is not None:
        return Doubt("drift", f"processes change by {change:+.0%} from first to last", "an idle machine, and retry=all")
    return None


def _significant_change(places: NDArray[np.int64], values: NDArray[np.float64]) -> float | None:
    """Change from the first to the last third of the places, where rank correlation and change are large enough."""
    if len(set(places.tolist())) < 3:
        return None
    ranks = [_ranks(places.astype(np.float64)), _ranks(values)]
    if min(np.std(rank) for rank in ranks) == 0:
        return None
    score = abs(np.asarray(np.corrcoef(ranks[0], ranks[1]))[0, 1]) * np.sqrt(len(values) - 1)
    ends = np.quantile(places, [1 / 3, 2 / 3])
    change = float(np.median(values[places >= ends[1]]) / np.median(values[places <= ends[0]]) - 1)
    return change if score > DRIFT_SCORE and abs(change) > SMALLEST_DRIFT else None


def _ranks(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Ranks of the values, equal ones share the mean of theirs."""
    _, inverse, counts = np.unique(values, return_inverse=True, return_counts=True)
    last = np.cumsum(counts)
    return np.asarray((last - (counts - 1) / 2)[inverse], dtype=np.float64)


def many_outliers(processes: Sequence[Values]) -> Doubt | None:
    """More than a quarter of the samples, and at least three, far from the median of all."""
    pooled = np.concatenate([np.asarray(samples, dtype=np.float64) for samples in processes])
    far, total = len(outliers(pooled)), len(pooled)
    if far < 3 or far <= MANY_OUTLIERS * total:
        return None
    sentence = f"{far} of {total} samples are far from the median"
    return Doubt("outliers", sentence, "an idle machine, or measure.max_samples=100")


def wide_scatter(processes: Sequence[Values]) -> Doubt | None:
    """Processes of which half are a factor of 1.25 or more from their median, which another run would not repeat."""
    centres = np.log([median(samples) for samples in processes])
    if len(centres) <= FEW or mad(centres) <= np.log(FAR):
        return None
    low, high = np.exp([centres.min(), centres.max()])
    return Doubt(
        "scatter", f"processes lie between {low:.3g} and {high:.3g} s", "an idle machine, or measure.processes=11"
    )
