"""Trackers send records elsewhere. Reports are made from the results folder alone, so a failing tracker only warns."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol

from harness.planning.schema import TRACKERS, TrackerConfig
from harness.usage import unknown


class Tracker(Protocol):
    """A destination of records, in the parent process only; ``failed`` counts the records that could not be sent."""

    failed: int

    def record(self, record: Mapping[str, Any]) -> None:
        """Send one record; never raises."""
        ...


class NoTracker:
    """Sends nothing."""

    failed = 0

    def record(self, record: Mapping[str, Any]) -> None:
        """Do nothing."""


def start(config: TrackerConfig, folder: Path = Path()) -> Tracker:
    """Return the tracker of a configuration, with its files below ``folder``; raises UsageError for an unknown name."""
    if config.name == "wandb":
        from harness.track.wandb import WandbTracker

        return WandbTracker(config, folder)
    if config.name == "none":
        return NoTracker()
    raise unknown("tracker", config.name, TRACKERS)
