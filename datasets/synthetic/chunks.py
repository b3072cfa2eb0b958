"""A long range of ids, computed piece by piece on all cores: numpy lets go of the interpreter's lock in its loops."""

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

CHUNK = 1 << 19
T = TypeVar("T")


def by_chunks(function: Callable[[NDArray[np.int64]], T], first: int, last: int, chunk: int = CHUNK) -> list[T]:
    """Results of ``function(ids)`` for consecutive pieces of the ids from ``first`` to below ``last``, in order.

    Neither the number of cores nor the size of a piece may change what the results are together.
    """

    def piece(start: int) -> T:
        return function(np.arange(start, min(start + chunk, last)))

    starts = range(first, last, chunk)
    if len(starts) < 2:
        return [piece(start) for start in starts]
    with ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        return list(pool.map(piece, starts))
