"""Prefetching of batches: a thread prepares the next batch while the caller computes on the current one."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from backends.contract import Clock

B = TypeVar("B")


def prefetched(batches: Iterator[B], clock: Clock) -> Iterator[B]:
    """Yield ``batches``, which a thread produces one ahead; phase ``load`` is the time that the caller waits.

    The thread starts and ends inside the epoch, so that its work is counted there (AGL, section 3.3.2).
    """
    with ThreadPoolExecutor(max_workers=1, thread_name_prefix="prefetch") as pool:
        ahead = pool.submit(next, batches, None)
        while True:
            with clock.phase("load"):
                batch = ahead.result()
            if batch is None:
                return
            ahead = pool.submit(next, batches, None)
            yield batch
