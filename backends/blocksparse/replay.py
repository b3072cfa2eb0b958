"""A model of epochs on more ranks than this machine has: every rank's own slice is timed here, one after the other.

No rank waits for another here, and no message is sent: what the network would take is added, ``latency`` per message
and bytes over ``bandwidth``. With overlap, messages cost what the product over own columns does not cover. The epoch is
that of the slowest rank: the model takes for granted that each rank has a machine of its own, and that none waits
between two exchanges for a rank that is slower there.
"""

import time
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from torch import Tensor

from backends.blocksparse.exchange import Links, Pending
from backends.blocksparse.slices import RankSlice
from backends.blocksparse.worker import OwnTargets, RankTask, RankWorker
from backends.model import State


@dataclass(frozen=True)
class RankEpoch:
    """One rank's epoch: seconds of computation measured here, seconds of messages by the model, and its bytes."""

    compute: float
    exposed: float
    messages: float
    rows: int
    ring: int

    @property
    def seconds(self) -> float:
        """The rank's epoch."""
        return self.compute + self.exposed


class ReplayLinks(Links):
    """Links without other ranks: rows that should arrive are zeros, and messages take what the network would take."""

    def _groups(self) -> tuple[Any, Any]:
        return None, None

    def _broadcast(self, stage: int, x: Tensor, part: Tensor) -> Any:
        part.zero_()

    def _all_to_all(self, out: Tensor, x: Tensor, received: list[int], sent: list[int]) -> Any:
        out.zero_()

    def _all_reduce(self, x: Tensor, group: Any) -> None:
        pass

    def finish(self, pending: Pending, overlapped: bool = False) -> Tensor:
        """Count what the network would take, and what of it computation did not cover."""
        covered = time.perf_counter() - pending.start if overlapped else 0.0
        self.traffic.seconds += pending.least
        self.traffic.exposed += max(0.0, pending.least - covered)
        return pending.out

    def _end(self, start: float, waiting: float, least: float) -> None:
        self.traffic.seconds += least
        self.traffic.exposed += least


def replay(
    task: RankTask, slices: Iterable[RankSlice], targets: Iterable[OwnTargets], state: State, epochs: int = 3
) -> list[RankEpoch]:
    """Time an epoch of each rank, the median of ``epochs`` after one that is discarded; phases as in ``RankWorker``.

    Uses the threads that torch has now: give each rank those of its machine.
    """
    results = []
    for rank, (part, own) in enumerate(zip(slices, targets, strict=True)):
        worker = RankWorker(rank, task, part, state, ReplayLinks)
        runs = []
        for index in range(epochs + 1):
            start = time.perf_counter()
            _, traffic = worker.epoch(index, own)
            runs.append((time.perf_counter() - start, traffic))
        seconds, traffic = sorted(runs[1:], key=lambda run: run[0])[epochs // 2]
        results.append(
            RankEpoch(seconds, traffic["exposed"], traffic["seconds"], int(traffic["rows"]), int(traffic["ring"]))
        )
    return results


def epoch_seconds(ranks: Iterable[RankEpoch]) -> float:
    """The epoch of the slowest rank."""
    return max(rank.seconds for rank in ranks)
