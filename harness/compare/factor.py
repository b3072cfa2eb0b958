"""A factor between two versions with its interval, and the verdict on it."""

from dataclasses import dataclass

from harness.usage import UsageError

THRESHOLD, LARGEST_THRESHOLD = 1.05, 100.0
SLOWER, FASTER, NOT_SIGNIFICANT, UNDECIDED = "slower", "faster", "not significant", "undecided"


@dataclass(frozen=True)
class Factor:
    """Time of B divided by time of A, with the ends of its interval; ``n`` counts processes, pairs or groups."""

    value: float
    low: float
    high: float
    n: int

    def __str__(self) -> str:
        return f"{self.value:.3g} [{self.low:.3g}, {self.high:.3g}]"


def check_threshold(threshold: float) -> None:
    """Raise UsageError for a threshold that no factor can exceed, or every one."""
    if not 1 < threshold <= LARGEST_THRESHOLD:
        allowed = f"a factor above 1, up to {LARGEST_THRESHOLD:g}"
        raise UsageError(f"--threshold {threshold:g} is not allowed: give {allowed}")


def judge(factor: Factor, threshold: float) -> str:
    """Call a factor significant when its interval leaves 1 out and it exceeds the threshold, in either direction."""
    if factor.low > 1 and factor.value > threshold:
        return SLOWER
    if factor.high < 1 and factor.value < 1 / threshold:
        return FASTER
    return NOT_SIGNIFICANT


def judge_with_doubt(factor: Factor, threshold: float) -> str:
    """Judge, and call a factor undecided while its interval holds a change that must not be missed.

    That change is the square of the threshold, 1.1025 by default: a true factor of the threshold itself is called
    slower in half of all cases, whatever the number of measurements.
    """
    verdict = judge(factor, threshold)
    if verdict != NOT_SIGNIFICANT:
        return verdict
    inside = threshold**-2 < factor.low and factor.high < threshold**2
    return NOT_SIGNIFICANT if inside and 1 / threshold <= factor.value <= threshold else UNDECIDED
