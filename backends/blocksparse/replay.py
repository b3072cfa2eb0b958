"""A model of epochs on more ranks than this machine has: every rank's own slice is timed here, without the others.

No message is sent: what the network would take is added, ``latency`` per message and bytes over ``bandwidth``. With
overlap, messages cost what the product over own columns does not cover. Ranks wait for each other at every message, so
each stretch between two messages lasts as long as on the rank that is slowest there, and an epoch is the sum of its
stretches.

On ``machines`` each rank has one of its own: the slices are timed one after the other. On ``cores`` all share this
one, as real ranks do here: they are timed at the same time, and the messages of this machine take its cores. That is
to compare the model with real ranks.
"""

import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from statistics import median
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, distributed

from backends.blocksparse.exchange import Links, Pending
from backends.blocksparse.slices import OwnTargets, RankSlice
from backends.blocksparse.worker import RankTask, RankWorker
from backends.model import State
from backends.parallel.network import NO_NETWORK, ClusterNetwork
from backends.parallel.ranks import RankPool, shared_pool

SIZES = 1 << 10, 1 << 24  # bytes of the messages by which this machine's own transport is measured
REPEATS = 7
DISCARDED = 2  # epochs of each rank
LEAST, MOST, TIMED = 3, 15, 1.0  # epochs of each rank, and the seconds that they are to take


Seconds = NDArray[np.float64]


@dataclass(frozen=True)
class RankEpochs:
    """One rank's epochs by their stretches, each up to a message and the last one up to the end of the epoch.

    ``compute`` and ``exposed`` [epochs, stretches] are seconds of computation measured here, and of the message behind
    it by the model; ``messages`` are seconds of all messages, ``rows`` and ``ring`` the bytes of an epoch.
    """

    compute: Seconds
    exposed: Seconds
    messages: float
    rows: int
    ring: int


@dataclass(frozen=True)
class ModelledEpoch:
    """Seconds of computation and of messages, both of the rank that is slowest in each stretch."""

    compute: float
    exposed: float

    @classmethod
    def of(cls, ranks: Sequence[RankEpochs]) -> "ModelledEpoch":
        """The epoch of the median length."""
        compute, exposed = (np.array([getattr(rank, name) for rank in ranks]) for name in ("compute", "exposed"))
        slowest = (compute + exposed).argmax(0)[None]
        parts = [np.take_along_axis(part, slowest, 0)[0].sum(1) for part in (compute, exposed)]
        middle = np.argsort(np.add(*parts))[(len(parts[0]) - 1) // 2]
        return cls(*(float(part[middle]) for part in parts))

    @property
    def seconds(self) -> float:
        """The whole epoch."""
        return self.compute + self.exposed


@dataclass
class ReplayLinks(Links):
    """Links without other ranks: rows that should arrive are zeros, and messages take what the network would take.

    ``transport`` is what this machine's own messages take; its cores carry them, so that no computation covers them.
    """

    transport: ClusterNetwork = NO_NETWORK
    uncovered: float = 0.0
    stretches: list[tuple[float, float]] = field(default_factory=list)
    last: float = 0.0

    def begin(self) -> None:
        """Begin the first stretch of an epoch."""
        self.stretches, self.last = [], time.perf_counter()

    def end_stretch(self, exposed: float = 0.0) -> None:
        """End a stretch of computation and begin the next one; the message between them takes ``exposed`` seconds."""
        now = time.perf_counter()
        self.stretches.append((now - self.last, exposed))
        self.last = now

    def _groups(self) -> tuple[Any, Any]:
        return None, None

    def _broadcast(self, stage: int, x: Tensor, part: Tensor) -> Any:
        part.zero_()

    def _all_to_all(self, out: Tensor, x: Tensor, received: list[int], sent: list[int]) -> Any:
        out.zero_()

    def _all_reduce(self, x: Tensor, group: Any) -> None:
        pass

    def seconds(self, messages: int, received: float) -> float:
        """Seconds of the slower of the network and this machine's own transport."""
        self.uncovered = self.transport.seconds(messages, received)
        return max(self.uncovered, self.network.seconds(messages, received))

    def finish(self, pending: Pending, overlapped: bool = False) -> Tensor:
        """Count what the network would take, and what of it computation did not cover."""
        covered = time.perf_counter() - pending.start if overlapped else 0.0
        self.traffic.seconds += pending.least
        self.end_stretch(max(self.uncovered, pending.least - covered))
        return pending.out

    def _end(self, start: float, waiting: float, least: float) -> None:
        self.traffic.seconds += least
        self.end_stretch(least)


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
        compute, exposed = np.moveaxis(np.array(runs), 2, 0)
        return RankEpochs(compute, exposed, traffic["seconds"], int(traffic["rows"]), int(traffic["ring"]))


def repeats(seconds: float) -> int:
    """Number of epochs to time where one takes ``seconds``: short ones are more often disturbed."""
    return min(MOST, max(LEAST, int(TIMED / max(seconds, 1e-9))))


def replay(
    task: RankTask, slices: Sequence[RankSlice], targets: Sequence[OwnTargets], state: State, on: str
) -> list[RankEpochs]:
    """Time epochs of each rank ``on`` machines of their own, with the threads that torch has now, or on ``cores``.

    All ranks are timed equally often.
    """
    parts = list(enumerate(slices))
    if on == "machines":
        results: list[RankEpochs] = []
        for (rank, part), own in zip(parts, targets, strict=True):
            results.append(_timed_alone(ReplayWorker(rank, task, _copy_of(part), state, NO_NETWORK), own, results))
        return results
    pool = shared_pool(len(parts))
    transport = transport_of(pool)
    arguments = [(rank, task, part, state, transport) for rank, part in parts]
    objects = pool.build("backends.blocksparse.replay:ReplayWorker", arguments)
    try:
        longest = max(objects.each("warmed_up", [(own,) for own in targets]))
        return objects.each("timed", [(repeats(longest),)] * len(parts))
    finally:
        objects.close()


def _copy_of(part: RankSlice) -> RankSlice:
    """A slice with a copy of its matrix, which shares the arrays: what kernels keep with a matrix ends with it."""
    return replace(part, csr=replace(part.csr))


def _timed_alone(worker: ReplayWorker, targets: OwnTargets, earlier: Sequence[RankEpochs]) -> RankEpochs:
    """Time a rank as often as those before it."""
    seconds = worker.warmed_up(targets)
    return worker.timed(len(earlier[0].compute) if earlier else repeats(seconds))


class Transport:
    """Times messages between the ranks of this machine."""

    def seconds(self, size: int) -> float:
        """Median seconds in which a rank receives ``size`` bytes, shared by the other ranks, and sends as much."""
        ranks = distributed.get_world_size()
        sent = torch.zeros(size // (ranks - 1) * ranks, dtype=torch.uint8)
        received, seconds = torch.empty_like(sent), []
        for _ in range(REPEATS):
            distributed.barrier()
            start = time.perf_counter()
            distributed.all_to_all_single(received, sent)
            seconds.append(time.perf_counter() - start)
        return median(seconds)


def transport_of(pool: RankPool) -> ClusterNetwork:
    """Latency and bandwidth of the messages between this machine's own ranks, all of which send at the same time."""
    objects = pool.build("backends.blocksparse.replay:Transport", [()] * pool.size)
    small, large = (max(objects.each("seconds", [(size,)] * pool.size)) for size in SIZES)
    objects.close()
    return ClusterNetwork(SIZES[1] / max(large - small, 1e-9), small)
