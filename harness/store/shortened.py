"""Records with fewer processes than asked, as more would not have fitted the time of their cell or group."""

from collections.abc import Sequence

from harness.store.record import Record
from harness.store.shape import Doubt

LIMITS = ("group_seconds", "deadline_seconds")


def is_shortened(record: Record) -> bool:
    """Whether a record has fewer processes than its configuration asks for."""
    asked: int = record["config"]["measure"].get("processes", 0)
    return 0 < len(record.get("processes", ())) < asked


def doubts(records: Sequence[Record]) -> list[Doubt]:
    """Name how many processes the records of one row lack."""
    for record in filter(is_shortened, records):
        number, measure = len(record["processes"]), record["config"]["measure"]
        sentence = f"{number} of {measure['processes']} processes fitted the time"
        limits = (f"measure.{name} above {measure[name]:g}" for name in LIMITS if name in measure)
        return [Doubt("shortened", sentence, " or ".join(limits))]
    return []
