"""Prefetching of batches: threads prepare the next ones while the caller computes on the current one."""

from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

from backends.contract import Clock

T = TypeVar("T")
B = TypeVar("B")


def prefetched(make: Callable[[T], B], items: Iterator[T], clock: Clock, loaders: int = 1) -> Iterator[B]:
    """Yield ``make(item)`` of each item in order, made by ``loaders`` threads, each one batch ahead of the caller.

    Phase ``load`` is the time that the caller waits. One loader also reads the items; more of them have a thread that
    does, so that items are read one after the other. Threads start and end inside the epoch, so that their work is
    counted there (AGL, section 3.3.2).
    """
    with ThreadPoolExecutor(loaders, "prefetch") as pool, ThreadPoolExecutor(1, "read") as reader:

        def start() -> Future[B | None]:
            item = reader.submit(next, items, None) if loaders > 1 else None
            return pool.submit(lambda: _made(make, next(items, None) if item is None else item.result()))

        ahead = deque(start() for _ in range(loaders))
        while True:
            with clock.phase("load"):
                batch = ahead.popleft().result()
            if batch is None:
                return
            ahead.append(start())
            yield batch


def _made(make: Callable[[T], B], item: T | None) -> B | None:
    """The batch of an item, ``None`` where there is no further one."""
    return None if item is None else make(item)
