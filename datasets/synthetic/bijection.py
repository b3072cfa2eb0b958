"""Permutation of ``range(count)`` computed entry by entry, with its inverse, in constant memory."""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from datasets.randomness import hash_ids

_ROUNDS = 4


@dataclass(frozen=True)
class Bijection:
    """A keyed one-to-one map of ``range(count)``.

    A Feistel network on the two digits of an id in base ``ceil(sqrt(count))``; images outside the range are mapped
    again until they fall inside (Black and Rogaway, CT-RSA 2002).
    """

    seed: int
    purpose: str
    count: int

    @property
    def _side(self) -> int:
        return math.isqrt(max(self.count - 1, 0)) + 1

    def __call__(self, ids: NDArray[np.integer]) -> NDArray[np.int64]:
        """Map ids to their images."""
        return self._walk(np.asarray(ids, dtype=np.int64), forward=True)

    def inverse(self, images: NDArray[np.integer]) -> NDArray[np.int64]:
        """Map images back to their ids."""
        return self._walk(np.asarray(images, dtype=np.int64), forward=False)

    def _walk(self, values: NDArray[np.int64], forward: bool) -> NDArray[np.int64]:
        values = self._rounds(values, forward)
        outside = np.flatnonzero(values >= self.count)
        while len(outside):
            values[outside] = self._rounds(values[outside], forward)
            outside = outside[values[outside] >= self.count]
        return values

    def _rounds(self, values: NDArray[np.int64], forward: bool) -> NDArray[np.int64]:
        high, low = np.divmod(values, self._side)
        for step in range(_ROUNDS):
            if forward:
                high, low = low, (high + self._digit(step, low)) % self._side
            else:
                high, low = (low - self._digit(_ROUNDS - 1 - step, high)) % self._side, high
        return high * self._side + low

    def _digit(self, step: int, values: NDArray[np.int64]) -> NDArray[np.int64]:
        words = hash_ids(self.seed, f"{self.purpose}/{step}", values)
        return (words % np.uint64(self._side)).astype(np.int64)
