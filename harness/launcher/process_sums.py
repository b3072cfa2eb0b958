"""What one fresh process of a cell adds to the record beside its samples: preparation, page faults, load, steal."""

from typing import Any

from harness.launcher.interference import Interference
from harness.launcher.messages import Opened, TimedSample


class ProcessSums:
    """Sums over the samples of one process, the disturbed ones included."""

    def __init__(self, opened: Opened, tolerated_load: float) -> None:
        self.opened, self.tolerated_load = opened, tolerated_load
        self.first_call = opened.get("first_call")
        self.faults = {"minor": 0, "major": 0}
        self.seconds = self.others = self.stolen = self.demand = 0.0
        self.knows_others = self.knows_stolen = True

    def add(self, sample: TimedSample, interference: Interference) -> None:
        """Add one sample and what others did during it."""
        if self.first_call is None:  # without warm-ups the first sample's discarded call was the first of all
            self.first_call = sample["first"]
        for kind in self.faults:
            self.faults[kind] += sample["page_faults"][kind]  # type: ignore[literal-required]
        self.seconds += interference.seconds
        self.others += interference.others or 0.0
        self.stolen += interference.stolen or 0.0
        self.demand += (interference.busy or 0.0) + (interference.stolen or 0.0)
        self.knows_others &= interference.others is not None
        self.knows_stolen &= interference.stolen is not None

    def values(self) -> dict[str, Any]:
        """The entry of the record's key ``processes``; what the machine does not tell is absent."""
        values: dict[str, Any] = {"prepare": self.opened["prepare"], "warmup": self.opened["warmup"]}
        values |= {"first_call": self.first_call, "page_faults": self.faults}
        if self.knows_others and self.seconds > 0:
            values |= {"load": self.others / self.seconds, "tolerated_load": self.tolerated_load}
        if self.knows_stolen and self.demand > 0:
            values["steal"] = self.stolen / self.demand
        return {key: value for key, value in values.items() if value is not None}
