"""The model of ``replay`` beside the real ranks of this machine, timed in turns, as a machine's speed drifts.

Real ranks share this machine's cores, and its own messages take them. So the slices are timed at the same time here,
and a message takes the longer of the network and this machine's own transport.
"""

import time
from collections.abc import Callable
from statistics import median
from typing import Any

import torch
from torch import distributed

from backends.blocksparse.pieces import CutTask
from backends.blocksparse.replay import ModelledEpoch, RankEpochs, repeats
from backends.blocksparse.slices import OwnTargets
from backends.model import State
from backends.parallel.network import ClusterNetwork
from backends.parallel.ranks import RankPool

ROUNDS = 5
SIZES = 1 << 10, 1 << 24  # bytes of the messages by which this machine's own transport is measured
MESSAGES = 7


def model_beside(
    pool: RankPool, pieces: CutTask, targets: list[tuple[OwnTargets]], state: State, epoch: Callable[[int], Any]
) -> dict[str, Any]:
    """The modelled epoch and that of real ranks, which ``epoch`` trains: the round with the median ratio, and all.

    ``rounds`` are (modelled, measured) seconds, each the median of equally many epochs.
    """
    transport = transport_of(pool)
    arguments = [(rank, pieces.task, part, state, transport) for rank, part in enumerate(pieces.slices)]
    ranks = pool.build("backends.blocksparse.replay:ReplayWorker", arguments)
    rounds: list[tuple[ModelledEpoch, float]] = []
    try:
        count = repeats(max(ranks.each("warmed_up", targets)))
        for _ in range(ROUNDS):
            results: list[RankEpochs] = ranks.each("timed", [(count,)] * pool.size)
            measured = median(_seconds(epoch, index) for index in range(count))
            rounds.append((ModelledEpoch.of(results, together=True), measured))
    finally:
        ranks.close()
    modelled, seconds = sorted(rounds, key=lambda pair: pair[0].seconds / pair[1])[ROUNDS // 2]
    return {
        **modelled.facts(results),
        "measured": seconds,
        "rounds": [[each.seconds, real] for each, real in rounds],
        "imbalance": pieces.cut.imbalance,
    }


def _seconds(epoch: Callable[[int], Any], index: int) -> float:
    start = time.perf_counter()
    epoch(index)
    return time.perf_counter() - start


class Transport:
    """Times messages between the ranks of this machine."""

    def seconds(self, size: int) -> float:
        """Median seconds in which a rank receives ``size`` bytes, shared by the other ranks, and sends as much."""
        ranks = distributed.get_world_size()
        sent = torch.zeros(size // (ranks - 1) * ranks, dtype=torch.uint8)
        received, seconds = torch.empty_like(sent), []
        for _ in range(MESSAGES):
            distributed.barrier()
            start = time.perf_counter()
            distributed.all_to_all_single(received, sent)
            seconds.append(time.perf_counter() - start)
        return median(seconds)


def transport_of(pool: RankPool) -> ClusterNetwork:
    """Latency and bandwidth of the messages between this machine's own ranks, all of which send at the same time."""
    objects = pool.build("backends.blocksparse.model_check:Transport", [()] * pool.size)
    small, large = (max(objects.each("seconds", [(size,)] * pool.size)) for size in SIZES)
    objects.close()
    return ClusterNetwork(SIZES[1] / max(large - small, 1e-9), small)
