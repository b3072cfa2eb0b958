"""Work on pieces on all cores: numpy lets go of the interpreter's lock in its loops."""

import os
import threading
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

CHUNK = 1 << 19
Item = TypeVar("Item")
T = TypeVar("T")
_pool_thread = threading.local()


def cores() -> int:
    """The cores that this process may use."""
    return len(os.sched_getaffinity(0))


def on_all_cores(function: Callable[[Item], T], items: Iterable[Item]) -> list[T]:
    """Results of ``function(item)`` in order, of as many items at once as there are cores.

    One after the other within such an item: the cores are busy, and each thread more has its own arrays.
    """
    if getattr(_pool_thread, "is_one", False):
        return [function(item) for item in items]
    with ThreadPoolExecutor(cores(), initializer=lambda: setattr(_pool_thread, "is_one", True)) as pool:
        return list(pool.map(function, items))


def by_chunks(function: Callable[[NDArray[np.int64]], T], first: int, last: int, chunk: int = CHUNK) -> list[T]:
    """Results of ``function(ids)`` for consecutive pieces of the ids from ``first`` to below ``last``, in order.

    Neither the number of cores nor the size of a piece may change what the results are together.
    """

    def piece(start: int) -> T:
        return function(np.arange(start, min(start + chunk, last)))

    starts = range(first, last, chunk)
    return [piece(start) for start in starts] if len(starts) < 2 else on_all_cores(piece, starts)
