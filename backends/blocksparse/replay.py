"""A model of epochs on more ranks than this machine has: every rank's own slice is timed here, without the others.

No rank waits for another, and no message is sent: what the network would take is added, ``latency`` per message and
bytes over ``bandwidth``. With overlap, messages cost what the product over own columns does not cover. The epoch is
that of the slowest rank: the model takes for granted that no rank waits between two exchanges for one that is slower
there.

On ``machines`` each rank has one of its own: the slices are timed one after the other. On ``cores`` all share this
one, as real ranks do here: they are timed at the same time, and the messages of this machine take its cores. That is
to compare the model with real ranks.
"""

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from statistics import median
from typing import Any

import torch
from torch import Tensor, distributed

from backends.blocksparse.exchange import Links, Pending
from backends.blocksparse.slices import OwnTargets, RankSlice
from backends.blocksparse.worker import RankTask, RankWorker
from backends.model import State
from backends.parallel.network import NO_NETWORK, ClusterNetwork
from backends.parallel.ranks import RankPool, shared_pool

SIZES = 1 << 10, 1 << 24  # bytes of the messages by which this machine's own transport is measured
REPEATS = 7


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


@dataclass
class ReplayLinks(Links):
    """Links without other ranks: rows that should arrive are zeros, and messages take what the network would take.

    ``transport`` is what this machine's own messages take; its cores carry them, so that no computation covers them.
    """

    transport: ClusterNetwork = NO_NETWORK
    uncovered: float = 0.0

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
        self.traffic.exposed += max(self.uncovered, pending.least - covered)
        return pending.out

    def _end(self, start: float, waiting: float, least: float) -> None:
        self.traffic.seconds += least
        self.traffic.exposed += least


class ReplayWorker(RankWorker):
    """A rank that computes as if the others were there."""

    def __init__(self, rank: int, task: RankTask, part: RankSlice, state: State, transport: ClusterNetwork) -> None:
        super().__init__(rank, task, part, state, partial(ReplayLinks, transport=transport))

    def timed(self, targets: OwnTargets, epochs: int) -> RankEpoch:
        """The median of ``epochs`` epochs after one that is discarded."""
        self.train_on(targets)
        runs = []
        for index in range(epochs + 1):
            start = time.perf_counter()
            _, traffic = self.epoch(index)
            runs.append((time.perf_counter() - start, traffic))
        seconds, traffic = sorted(runs[1:], key=lambda run: run[0])[epochs // 2]
        return RankEpoch(seconds, traffic["exposed"], traffic["seconds"], int(traffic["rows"]), int(traffic["ring"]))


def replay(
    task: RankTask, slices: Sequence[RankSlice], targets: Sequence[OwnTargets], state: State, on: str, epochs: int = 3
) -> list[RankEpoch]:
    """Time an epoch of each rank ``on`` machines of their own, with the threads that torch has now, or on ``cores``."""
    parts = list(enumerate(slices))
    if on == "machines":
        return [
            _timed_alone(rank, task, part, own, state, epochs) for (rank, part), own in zip(parts, targets, strict=True)
        ]
    pool = shared_pool(len(parts))
    transport = transport_of(pool)
    arguments = [(rank, task, part, state, transport) for rank, part in parts]
    objects = pool.build("backends.blocksparse.replay:ReplayWorker", arguments)
    try:
        return objects.each("timed", [(own, epochs) for own in targets])
    finally:
        objects.close()


def _timed_alone(
    rank: int, task: RankTask, part: RankSlice, targets: OwnTargets, state: State, epochs: int
) -> RankEpoch:
    """Time a rank over a copy of its matrix, which shares the arrays: what kernels keep with a matrix ends with it."""
    return ReplayWorker(rank, task, replace(part, csr=replace(part.csr)), state, NO_NETWORK).timed(targets, epochs)


def epoch_seconds(ranks: Sequence[RankEpoch]) -> float:
    """The epoch of the slowest rank."""
    return max(rank.seconds for rank in ranks)


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
