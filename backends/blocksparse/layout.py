"""Which process holds which part of a matrix: 1D, and 1.5D with replication (CAGNET; Tripathy, Yelick and Buluc 2020).

The rows are cut into b = p / r blocks. Rank ``block * r + column`` holds row block ``block``; of the b column blocks
that this row block is multiplied with, the stages, it takes those of its ``column``. 1D is r = 1.
"""

from dataclasses import dataclass
from math import isqrt


@dataclass(frozen=True)
class RankLayout:
    """``ranks`` processes that hold each row block ``replication`` times; raises ValueError where that cannot be."""

    ranks: int
    replication: int = 1

    def __post_init__(self) -> None:
        if self.ranks < 1:
            raise ValueError(f"ranks={self.ranks} is not allowed: at least 1")
        allowed = replications(self.ranks)
        if self.replication not in allowed:
            raise ValueError(
                f"replication={self.replication} is not allowed for ranks={self.ranks}: it must divide them, and there "
                f"must be a stage for every column; allowed are {', '.join(map(str, allowed))}"
            )

    @property
    def blocks(self) -> int:
        """Number of row blocks, as of stages."""
        return self.ranks // self.replication

    def place(self, rank: int) -> tuple[int, int]:
        """Row block and column of a rank."""
        return divmod(rank, self.replication)

    def rank_of(self, block: int, column: int) -> int:
        """The rank that holds a row block in a column."""
        return block * self.replication + column

    def stages(self, column: int) -> range:
        """The column blocks that ranks of a column multiply with."""
        first, last = (place * self.blocks // self.replication for place in (column, column + 1))
        return range(first, last)

    def column_of(self, stage: int) -> int:
        """The column whose ranks multiply with a column block."""
        return next(column for column in range(self.replication) if stage in self.stages(column))

    def row_group(self, block: int) -> range:
        """Ranks that hold the same row block: their partial sums are added up."""
        return range(block * self.replication, (block + 1) * self.replication)

    def column_group(self, column: int) -> range:
        """Ranks of one column, one for each row block: rows of the embeddings travel between them."""
        return range(column, self.ranks, self.replication)

    def within(self, rows: int) -> "RankLayout":
        """The largest layout whose row blocks have a row each, with the replication as far as it allows that."""
        blocks = min(self.blocks, max(1, rows))
        replication = min(self.replication, blocks)
        return RankLayout(blocks * replication, replication)

    def check_rows(self, rows: int) -> None:
        """Raise ValueError where there are fewer rows than blocks."""
        if rows < self.blocks:
            fitting = [str(r) for r in replications(self.ranks) if self.ranks // r <= rows]
            larger = f", or replication={' or '.join(fitting)}" if fitting else ""
            most = self.within(rows)
            raise ValueError(
                f"ranks={self.ranks} and replication={self.replication} make {self.blocks} row blocks, the graph has "
                f"{rows} nodes: give at most ranks={most.ranks} with replication={most.replication}{larger}"
            )


def replications(ranks: int) -> list[int]:
    """Replications that a number of ranks allows: divisors r with a stage for every column, r <= p / r."""
    return [r for r in range(1, isqrt(ranks) + 1) if ranks % r == 0]
