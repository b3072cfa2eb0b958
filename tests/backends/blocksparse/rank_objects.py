"""What ranks of the tests build: links between two of them, of which one is late."""

import time

import torch

from backends.blocksparse.exchange import Links
from backends.blocksparse.layout import RankLayout
from backends.parallel.network import ClusterNetwork


class LateRank:
    """Two ranks that send each other rows over an assumed network, the second ``delay`` seconds after the first."""

    def __init__(self, rank: int, network: ClusterNetwork, delay: float) -> None:
        rows = [torch.arange(3), torch.arange(3)]
        rows[rank] = rows[rank][:0]
        self.links = Links(RankLayout(2), rank, [len(other) for other in rows], rows, 3, False, network)
        self.x, self.delay = torch.full((3, 2), float(rank)), delay if rank else 0.0

    def fetched(self) -> tuple[list[float], float]:
        """The rows of the other rank, and when they are there."""
        time.sleep(self.delay)
        rows = self.links.finish(self.links.start(self.x))
        return rows.flatten().tolist(), time.perf_counter()

    def added(self) -> tuple[list[float], float]:
        """The sum over both ranks, and when it is there."""
        time.sleep(self.delay)
        total = self.links.sum_of_blocks(self.x.clone())
        return total.flatten().tolist(), time.perf_counter()
