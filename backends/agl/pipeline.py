"""The training pipeline: batches are made in a thread while earlier ones are computed (AGL, section 3.3.2)."""

from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

from backends.contract import Clock, Nodes

B = TypeVar("B")


def overlapped(make: Callable[[Nodes], B], targets: list[Nodes], clock: Clock) -> Iterator[B]:
    """Yield ``make(t)`` for each batch of targets, the next one always under way; phase ``load`` is the waiting.

    The thread starts and ends inside the epoch, so that its work is counted there.
    """
    with ThreadPoolExecutor(max_workers=1, thread_name_prefix="vectorize") as pool:
        ahead: Future[B] | None = pool.submit(make, targets[0]) if targets else None
        for following in [*targets[1:], None]:
            assert ahead is not None
            with clock.phase("load"):
                batch = ahead.result()
            ahead = None if following is None else pool.submit(make, following)
            yield batch
