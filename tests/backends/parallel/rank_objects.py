"""Objects that the tests of ``backends.parallel.ranks`` build on ranks."""

import os
import signal
import struct
import sys
import time

import numpy as np
import torch
from torch import distributed

from backends.blocksparse.exchange import groups_of
from backends.blocksparse.layout import RankLayout
from backends.parallel.deadline import wait_for

BLOCK = 16 << 20


class Adder:
    """Adds an array up over all ranks, and fails in the ways that a rank can fail."""

    def __init__(self, rank: int, values: np.ndarray) -> None:
        self.rank, self.values = rank, values

    def total(self) -> float:
        """Sum of the values of all ranks."""
        total = torch.tensor([float(self.values.sum())], dtype=torch.float64)
        distributed.all_reduce(total)
        return float(total)

    def process(self) -> tuple[int, int, bool]:
        """Process id, threads, and whether the values are mapped (else they could be written to)."""
        return os.getpid(), torch.get_num_threads(), not self.values.flags.writeable

    def timeouts(self) -> list[float]:
        """Seconds that collectives of all ranks, and of the groups of a layout, wait."""
        columns, rows = groups_of(RankLayout(2))
        groups = [distributed.group.WORLD, columns[0], rows[self.rank]]
        cpu = torch.device("cpu")
        return [group._get_backend(cpu).options._timeout.total_seconds() for group in groups]

    def grow(self) -> None:
        """Use memory for a moment, more of it on rank 1."""
        bytearray((1 + self.rank) * BLOCK)

    def total_unless(self, rank: int, failure: str) -> float:
        """Sum, but for one rank, which fails and leaves the others waiting for it."""
        if self.rank == rank:
            getattr(self, failure)()
        return self.total()

    def crash(self) -> None:
        """End by SIGSEGV."""
        os.kill(os.getpid(), signal.SIGSEGV)

    def killed(self) -> None:
        """End as the kernel ends a process when memory runs out."""
        os.kill(os.getpid(), signal.SIGKILL)

    def killed_amid_answer(self) -> None:
        """End likewise, while the answer is on its way."""
        os.write(int(sys.argv[-3]), struct.pack("!i", BLOCK))  # the pipe, and the size of what would follow
        self.killed()

    def total_later(self, late: int) -> None:
        """Sum with a collective that is waited for after its start; rank ``late`` does not take part."""
        if self.rank == late:
            self.hang()
        wait_for(distributed.all_reduce(torch.zeros(1), async_op=True))

    def hang(self) -> None:
        """Never return."""
        time.sleep(3600)

    def allocate(self) -> None:
        """Take memory until there is none; the pool's limit ends it."""
        blocks = []
        while True:
            blocks.append(np.ones(BLOCK, dtype=np.int8))

    def refuse(self) -> None:
        """Raise."""
        raise ValueError("no such thing")
