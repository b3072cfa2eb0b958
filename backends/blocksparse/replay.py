"""A model of epochs on more ranks than this machine has: every rank's own slice is timed here, without the others.

No message is sent: what the network would take is added, ``latency`` per message and bytes over ``bandwidth``. Ranks
wait for each other at every message: it arrives that many seconds after the last rank sent, while own columns multiply
where there is overlap. So each stretch between two messages lasts until the last rank has computed and received, and an
epoch is the sum of its stretches.

Each rank has a machine of its own, so that the slices are timed one after the other. What real ranks share, and how the
model compares with them, is in ``model_check``.
"""

import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from backends.blocksparse.exchange import Links, Pending
from backends.blocksparse.slices import OwnTargets, RankSlice
from backends.blocksparse.worker import RankTask, RankWorker
from backends.model import State
from backends.parallel.network import NO_NETWORK, ClusterNetwork

DISCARDED = 2  # epochs of each rank
LEAST, MOST, TIMED = 3, 15, 1.0  # epochs of each rank, and the seconds that they are to take

Seconds = NDArray[np.float64]


@dataclass(frozen=True)
class RankEpochs:
    """One rank's epochs by their stretches, each up to a message and the last one up to the end of the epoch.

    Of a stretch [epochs, stretches], in seconds: when its message leaves and when computation ends (``compute``),
    both measured here from its begin on; and by the model what the message takes (``network``), and what of that
    nothing covers, as this machine's cores carry it (``transport``). ``messages`` are seconds of all messages, ``rows``
    and ``ring`` the bytes of an epoch.
    """

    leaves: Seconds
    compute: Seconds
    network: Seconds
    transport: Seconds
    messages: float
    rows: int
    ring: int

    @property
    def exposed(self) -> Seconds:
        """Seconds [epochs, stretches] of messages that the rank's own computation does not cover."""
        return np.maximum(self.transport, self.leaves + self.network - self.compute)


@dataclass(frozen=True)
class ModelledEpoch:
    """Seconds of computation on the rank that is slowest in each stretch, and of messages beyond that."""

    compute: float
    exposed: float

    @classmethod
    def of(cls, ranks: Sequence[RankEpochs], together: bool) -> "ModelledEpoch":
        """The epoch of the median length, of ranks that were timed ``together`` or one after the other.

        Ranks timed one after the other are compared by the medians of their stretches: what disturbed one of them at
        another time is nothing that the others would have waited for.
        """
        names = "leaves", "compute", "network", "transport"

        def epochs_of(rank: RankEpochs, name: str) -> Seconds:
            seconds: Seconds = getattr(rank, name)
            return seconds if together else np.median(seconds, axis=0, keepdims=True)

        # each [ranks, epochs, stretches]
        leaves, compute, network, transport = (np.array([epochs_of(rank, name) for rank in ranks]) for name in names)
        ends = np.maximum(compute + transport, leaves.max(0) + network).max(0).sum(1)
        computed = compute.max(0).sum(1)
        middle = np.argsort(ends)[(len(ends) - 1) // 2]
        return cls(float(computed[middle]), float(ends[middle] - computed[middle]))

    @property
    def seconds(self) -> float:
        """The whole epoch."""
        return self.compute + self.exposed

    def facts(self, ranks: Sequence[RankEpochs]) -> dict[str, Any]:
        """What a record says of the modelled epoch of some ranks; ``rows`` are the most bytes that one receives."""
        rows = max(rank.rows for rank in ranks)
        return {"ranks": len(ranks), "seconds": self.seconds, **asdict(self), "rows": rows}


@dataclass
class ReplayLinks(Links):
    """Links without other ranks: rows that should arrive are zeros, and messages take what the network would take.

    ``transport`` is what this machine's own messages take; its cores carry them, so that no computation covers them.
    """

    transport: ClusterNetwork = NO_NETWORK
    uncovered: float = 0.0
    stretches: list[tuple[float, float, float, float]] = field(default_factory=list)
    last: float = 0.0

    def begin(self) -> None:
        """Begin the first stretch of an epoch."""
        self.stretches, self.last = [], time.perf_counter()

    def end_stretch(self, message: Pending | None = None, overlapped: bool = False) -> None:
        """End a stretch of computation, which covers its message where that is ``overlapped``, and begin the next."""
        now = time.perf_counter()
        leaves = message.start if message is not None and overlapped else now
        seconds = (0.0, 0.0) if message is None else (message.least, self.uncovered)
        self.stretches.append((leaves - self.last, now - self.last, *seconds))
        self.last = now

    def _groups(self) -> tuple[Any, Any]:
        return None, None

    def _broadcast(self, stage: int, x: Tensor, part: Tensor) -> Any:
        part.zero_()

    def _all_to_all(self, out: Tensor, x: Tensor, received: list[int], sent: list[int]) -> Any:
        out.zero_()

    def _all_reduce(self, x: Tensor, group: Any) -> None:
        pass

    def _announced(self, group: Any) -> tuple[float, Tensor, list[Any]]:
        return time.perf_counter(), torch.empty(0), []

    def seconds(self, messages: int, received: float) -> float:
        """Seconds of the slower of the network and this machine's own transport."""
        self.uncovered = self.transport.seconds(messages, received)
        return max(self.uncovered, self.network.seconds(messages, received))

    def finish(self, pending: Pending, overlapped: bool = False) -> Tensor:
        """Count what the network would take."""
        self.traffic.seconds += pending.least
        self.end_stretch(pending, overlapped)
        return pending.out

    def _end(self, pending: Pending, waiting: float) -> None:
        self.finish(pending)


class ReplayWorker(RankWorker):
    """A rank that computes as if the others were there."""

    def __init__(self, rank: int, task: RankTask, part: RankSlice, state: State, transport: ClusterNetwork) -> None:
        super().__init__(rank, task, part, state, partial(ReplayLinks, transport=transport))
        self.links: ReplayLinks

    def warmed_up(self, targets: OwnTargets) -> float:
        """Train epochs that are discarded; returns the seconds of the last one."""
        self.train_on(targets)
        for _ in range(DISCARDED):
            start = time.perf_counter()
            self.epoch(0)
        return time.perf_counter() - start

    def timed(self, epochs: int) -> RankEpochs:
        """Time some epochs."""
        runs, traffic = [], {}
        for index in range(1, epochs + 1):
            self.links.begin()
            _, traffic = self.epoch(index)
            self.links.end_stretch()
            runs.append(self.links.stretches)
        stretches = np.moveaxis(np.array(runs), 2, 0)
        return RankEpochs(*stretches, traffic["seconds"], int(traffic["rows"]), int(traffic["ring"]))


def repeats(seconds: float) -> int:
    """Number of epochs to time where one takes ``seconds``: short ones are more often disturbed."""
    return min(MOST, max(LEAST, int(TIMED / max(seconds, 1e-9))))


def replay(
    task: RankTask, slices: Sequence[RankSlice], targets: Sequence[OwnTargets], state: State
) -> list[RankEpochs]:
    """Time epochs of each rank with the threads that torch has now, as often as its own epochs take seconds."""
    results: list[RankEpochs] = []
    for rank, (part, own) in enumerate(zip(slices, targets, strict=True)):
        # a copy of the matrix shares the arrays, and what kernels keep with a matrix ends with it
        worker = ReplayWorker(rank, task, replace(part, csr=replace(part.csr)), state, NO_NETWORK)
        seconds = worker.warmed_up(own)
        results.append(worker.timed(repeats(seconds)))
        del worker
    return results
