"""The training pipeline: batches are made in a thread while earlier ones are computed (AGL, section 3.3.2)."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from backends.contract import Clock

B = TypeVar("B")


def overlapped(batches: Iterator[B], clock: Clock) -> Iterator[B]:
    """Yield what ``batches`` yields, the next one always under way; phase ``load`` is the waiting.

    The thread starts and ends inside the epoch, so that its work is counted there.
    """
    with ThreadPoolExecutor(max_workers=1, thread_name_prefix="vectorize") as pool:
        ahead = pool.submit(next, batches, None)
        while True:
            with clock.phase("load"):
                batch = ahead.result()
            if batch is None:
                return
            ahead = pool.submit(next, batches, None)
            yield batch
