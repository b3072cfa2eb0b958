"""Trackers show records elsewhere; the results folder stays the truth, so a tracker that fails is only a warning."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol

from harness.planning.schema import TRACKERS, TrackerConfig
from harness.usage import unknown


class Tracker(Protocol):
    """A sink for records, used by the parent process only; ``failed`` counts the records that did not get through."""

    failed: int

    def record(self, record: Mapping[str, Any]) -> None:
        """Show one record; never raises."""
        ...


class NoTracker:
    """Shows nothing."""

    failed = 0

    def record(self, record: Mapping[str, Any]) -> None:
        """Do nothing."""


def start(config: TrackerConfig, folder: Path = Path()) -> Tracker:
    """Return the sink of a configuration; what it stores lies below ``folder``. Raises UsageError for its name."""
    if config.name == "wandb":
        from harness.track.wandb import WandbTracker

        return WandbTracker(config, folder)
    if config.name == "none":
        return NoTracker()
    raise unknown("tracker", config.name, TRACKERS)
