"""An engine of real work in numpy, with a busy loop that makes each call ``FACTOR`` times as long."""

import time
from dataclasses import dataclass
from typing import ClassVar

from backends.contract import Clock
from backends.dummy.backend import DummyTrainer
from backends.dummy.config import DummyConfig

FACTOR = 1.0


@dataclass
class PacedConfig(DummyConfig):
    """Options of the engine; those of the one that it derives from have no effect on its time."""

    name: str = "paced"

    runtimes: ClassVar[dict[str, str]] = {"train": "gnn_paced:PacedTrainer"}


class PacedTrainer(DummyTrainer):
    """Gradients in every epoch, timed by the harness's own clock."""

    now = None  # type: ignore[assignment]

    def epoch(self, index: int, clock: Clock) -> float:
        """Compute the gradients of each batch, then keep the processor busy."""
        start = time.perf_counter()
        losses = [self.loss_and_gradients(targets)[1] for targets in self.plan.targets(index)]
        end = start + (time.perf_counter() - start) * FACTOR
        while time.perf_counter() < end:
            pass
        return sum(losses) / len(losses)
