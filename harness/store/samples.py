"""Samples of a record in seconds, scaled to whole epochs, and by the fresh process that took them."""

from collections.abc import Sequence

from harness.store.record import Record
from harness.store.statistics import median


def seconds(record: Record) -> list[float]:
    """Samples of the timed call in seconds, scaled to whole epochs."""
    return [value * record.get("extrapolated", 1.0) for value in record["epochs"]["seconds"]]


def first_calls(record: Record) -> list[float]:
    """The discarded calls of the samples in seconds, scaled to whole epochs."""
    return [value * record.get("extrapolated", 1.0) for value in record["epochs"]["first"]]


def by_process(record: Record, values: Sequence[float]) -> dict[int, list[float]]:
    """Values of the samples of a record by fresh process; records before protocol 3 are of one process."""
    numbers = record["epochs"].get("process") or [0] * len(values)
    processes: dict[int, list[float]] = {}
    for number, value in zip(numbers, values, strict=True):
        processes.setdefault(number, []).append(value)
    return processes


def median_seconds(record: Record) -> float:
    """Seconds of a whole epoch as tables show them: the median over the processes' medians."""
    return median([median(values) for values in by_process(record, seconds(record)).values()])
