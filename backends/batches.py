"""The batches of every epoch, drawn by the harness, so that every engine trains the same ones."""

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from datasets.randomness import hash_ids


@dataclass(frozen=True)
class BatchPlan:
    """Targets of every batch; ``size=None`` is full batch, ``limit`` is the most batches that an epoch has."""

    nodes: NDArray[np.int64]
    size: int | None = None
    limit: int | None = None
    seed: int = 0
    _drawn: dict[int, list[NDArray[np.int64]]] = field(default_factory=dict, init=False, repr=False, compare=False)

    @property
    def full_batch(self) -> bool:
        """Whether an epoch is one step over the whole graph."""
        return self.size is None

    @property
    def batches(self) -> int:
        """Steps in an unlimited epoch."""
        return 1 if self.size is None else -(-len(self.nodes) // self.size)

    @property
    def extrapolation(self) -> float:
        """Targets of an unlimited epoch over those of this one; the last batch, which a limit drops, may be small."""
        if self.size is None or self.limit is None:
            return 1.0
        return max(1.0, len(self.nodes) / (self.size * self.limit))

    def targets(self, epoch: int) -> list[NDArray[np.int64]]:
        """Return the target nodes of each batch of ``epoch``: a hash permutation cut into pieces of ``size``.

        The last epoch's batches are remembered: they are drawn before the epoch is timed.
        """
        if self.size is None:
            return [self.nodes]
        if epoch not in self._drawn:
            self._drawn.clear()
            self._drawn[epoch] = self._batches(epoch, self.size)
        return self._drawn[epoch]

    def _batches(self, epoch: int, size: int) -> list[NDArray[np.int64]]:
        # Different nodes have different hashes, so that any sort gives this order; a stable one would be slower.
        order = np.argsort(hash_ids(self.seed + epoch, "batches", self.nodes))
        starts = range(0, len(self.nodes), size)
        return [self.nodes[order[start : start + size]] for start in starts[: self.limit]]
