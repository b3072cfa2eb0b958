"""Records with less than was asked: fewer processes, as the time of cell or group ended, or a pass that time ended."""

from collections.abc import Sequence

from harness.store.record import Record
from harness.store.shape import Doubt

LIMITS = ("group_seconds", "deadline_seconds")
OUT_OF_TIME = "not measured, timeout"  # so begins ``facts.status`` or ``limits.status`` of a pass that time ended


def is_shortened(record: Record) -> bool:
    """Whether a record has fewer processes than its configuration asks for."""
    asked: int = record["config"]["measure"].get("processes", 0)
    return 0 < len(record.get("processes", ())) < asked


def lacks_a_pass(record: Record) -> bool:
    """Whether time ended a pass after the samples of a record."""
    sections = (record.get("facts", {}), record.get("limits", {}))
    return any(str(section.get("status", "")).startswith(OUT_OF_TIME) for section in sections)


def doubts(records: Sequence[Record]) -> list[Doubt]:
    """Name how many processes the records of one row lack."""
    for record in filter(is_shortened, records):
        number, measure = len(record["processes"]), record["config"]["measure"]
        sentence = f"{number} of {measure['processes']} processes fitted the time"
        limits = (f"measure.{name} above {measure[name]:g}" for name in LIMITS if name in measure)
        return [Doubt("shortened", sentence, " or ".join(limits))]
    return []
