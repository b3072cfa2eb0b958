"""Rows of embeddings between the ranks of a column, and sums over the ranks of a row."""

import time
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import torch
from torch import Tensor, distributed

from backends.blocksparse.layout import RankLayout
from backends.parallel.deadline import collective_timeout, wait_for
from backends.parallel.network import NO_NETWORK, ClusterNetwork


@cache
def groups_of(layout: RankLayout) -> tuple[list[Any], list[Any]]:
    """The process groups of all columns and of all rows; every rank makes all of them, in this order."""
    columns = [_group(layout.column_group(column)) for column in range(layout.replication)]
    rows = [_group(layout.row_group(block)) for block in range(layout.blocks)]
    return columns, rows


def _group(members: range) -> Any:
    return distributed.new_group(list(members), timeout=collective_timeout())  # else torch's 30 minutes


@dataclass
class RankTraffic:
    """What a rank received since the last ``reset``: bytes of rows, of sums (payload), of the rings of sums.

    ``seconds`` are those of all messages, ``exposed`` those that the rank did nothing but wait for them.
    """

    rows: int = 0
    sums: int = 0
    ring: int = 0
    seconds: float = 0.0
    exposed: float = 0.0

    def reset(self) -> None:
        """Forget what was counted."""
        self.rows = self.sums = self.ring = 0
        self.seconds = self.exposed = 0.0


@dataclass
class Pending:
    """Messages on their way, of this rank since ``start``, of all ranks of its group since ``starts``.

    ``out`` is complete after ``works``, and ``least`` seconds after the last rank of the group started.
    """

    out: Tensor
    works: list[Any]
    buffers: tuple[Tensor, ...]  # sent, so not to be freed before
    start: float
    starts: Tensor
    least: float


SentRows = Tensor | range  # own rows that go to a rank: some, or those of a whole block


@dataclass
class Links:
    """A rank's connections: ``incoming`` rows come from each block of its column, ``sent`` rows go to each rank of it.

    With ``broadcast`` the owner of a block broadcasts it whole; else only the rows that are needed travel. Messages are
    held back until the ``network`` would have brought them, which carries them once the last rank of a group sends; it
    has a direction of its own for what a rank sends, so that the larger of sent and received bytes counts.
    """

    layout: RankLayout
    rank: int
    incoming: list[int]
    sent: list[SentRows]
    rows: int
    broadcast: bool
    network: ClusterNetwork = NO_NETWORK
    traffic: RankTraffic = field(default_factory=RankTraffic)

    def __post_init__(self) -> None:
        self.block, self.column = self.layout.place(self.rank)
        self.column_group, self.row_group = self._groups()
        self.counts = [len(rows) for rows in self.sent]
        # whole blocks are broadcast as they are: only rows that are chosen have their numbers in one list
        chosen = [rows for rows in self.sent if isinstance(rows, Tensor)]
        self.all_sent = torch.cat(chosen) if chosen else None

    def _groups(self) -> tuple[Any, Any]:
        columns, rows = groups_of(self.layout)
        return columns[self.column], rows[self.block]

    def start(self, x: Tensor) -> Pending:
        """Begin to send own rows ``x`` [rows, width] and to receive those of others, block after block."""
        out = x.new_empty((sum(self.incoming), x.shape[1]))
        stages = self.layout.stages(self.column)
        messages = len(stages) - (self.block in stages) if self.broadcast else 1
        received = len(out) - self.incoming[self.block]
        x = x.contiguous() if self.all_sent is None else x.index_select(0, self.all_sent)
        sent = received if self.broadcast else len(x) - self.counts[self.block]  # a broadcast goes on from rank to rank
        pending = self._pending(out, x, messages, received, sent)
        if self.broadcast:
            pending.works += [self._broadcast(stage, x, out.split(self.incoming)[stage]) for stage in stages]
        else:
            pending.works.append(self._all_to_all(out, x, self.incoming, self.counts))
        return pending

    def _broadcast(self, stage: int, x: Tensor, part: Tensor) -> Any:
        if stage == self.block and len(part):
            part.copy_(x)
        source = self.layout.rank_of(stage, self.column)
        return distributed.broadcast(x if stage == self.block else part, source, self.column_group, async_op=True)

    def _all_to_all(self, out: Tensor, x: Tensor, received: list[int], sent: list[int]) -> Any:
        return distributed.all_to_all_single(out, x, received, sent, self.column_group, async_op=True)

    def start_return(self, gradient: Tensor) -> Pending:
        """Begin to return gradients [received, width] to the owners of the rows."""
        gradient = gradient.contiguous()
        out = gradient.new_empty((sum(self.counts), gradient.shape[1]))
        received = len(out) - self.counts[self.block]
        pending = self._pending(out, gradient, 1, received, len(gradient) - self.incoming[self.block])
        pending.works.append(self._all_to_all(out, gradient, self.counts, self.incoming))
        return pending

    def _pending(self, out: Tensor, x: Tensor, messages: int, received: int, sent: int) -> Pending:
        """Messages that bring ``received`` rows as wide as those of ``x``, of which ``sent`` leave."""
        of_a_row = x.shape[1] * x.itemsize
        self.traffic.rows += received * of_a_row
        least = self.seconds(messages, max(received, sent) * of_a_row)
        start, starts, works = self._announced(self.column_group)
        return Pending(out, works, (x,), start, starts, least)

    def _announced(self, group: Any) -> tuple[float, Tensor, list[Any]]:
        """When this rank starts to send, when all ranks of the group do, and what completes that.

        Ranks under an assumed network are processes of one machine, which has one clock.
        """
        start = time.perf_counter()
        own = torch.tensor([start], dtype=torch.float64)
        if self.network == NO_NETWORK:
            return start, own, []
        starts = own.new_zeros(distributed.get_world_size(group))
        return start, starts, [distributed.all_gather(list(starts.split(1)), own, group=group, async_op=True)]

    def seconds(self, messages: int, received: float) -> float:
        """Seconds that messages take at least."""
        return self.network.seconds(messages, received)

    def finish(self, pending: Pending, overlapped: bool = False) -> Tensor:
        """Wait for messages, ``overlapped`` with computation since their start or not; returns what they brought."""
        before = time.perf_counter()
        for work in pending.works:
            wait_for(work)
        self._end(pending, before)
        return pending.out

    def _all_reduce(self, x: Tensor, group: Any) -> None:
        distributed.all_reduce(x, group=group)

    def _end(self, pending: Pending, waiting: float) -> None:
        """Wait until the network would have brought what was sent; exposed is from ``waiting`` on."""
        left = float(pending.starts.max()) + pending.least - time.perf_counter()
        if left > 0:
            time.sleep(left)
        now = time.perf_counter()
        self.traffic.seconds += now - pending.start
        self.traffic.exposed += now - waiting

    def add_returned(self, total: Tensor, returned: Tensor) -> Tensor:
        """Add returned gradients to ``total`` [rows, width] in the order of the ranks, then those of the replicas."""
        for rows, part in zip(self.sent, returned.split(self.counts), strict=True):
            if isinstance(rows, range):
                total[rows.start : rows.stop].add_(part)
            else:
                total.index_add_(0, rows, part)
        return self.sum_of_replicas(total) if self.layout.replication > 1 else total

    def sum_of_replicas(self, x: Tensor) -> Tensor:
        """Sum over the ranks that hold the same rows, in place."""
        return self._sum(x, self.row_group, self.layout.replication)

    def sum_of_blocks(self, x: Tensor) -> Tensor:
        """Sum over one replica of every row, in place."""
        return self._sum(x, self.column_group, self.layout.blocks)

    def _sum(self, x: Tensor, group: Any, members: int) -> Tensor:
        ring = 2 * (members - 1) * x.nbytes // members
        self.traffic.sums += x.nbytes
        self.traffic.ring += ring
        start, starts, works = self._announced(group)
        self._all_reduce(x, group)
        for work in works:
            wait_for(work)
        self._end(Pending(x, works, (), start, starts, self.seconds(2 * (members - 1), ring)), start)
        return x
