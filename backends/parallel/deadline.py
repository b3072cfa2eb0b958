"""The deadline by which this process must answer the process that started it, and waiting for other ranks."""

import os
import time
from datetime import timedelta
from functools import cache
from typing import Any

from backends.contract import DEADLINE

PATIENCE = timedelta(minutes=30)  # where there is no deadline


def seconds_left() -> float | None:
    """Seconds until the deadline in ``$HARNESS_DEADLINE``, at least 0; ``None`` where there is no deadline."""
    deadline = os.environ.get(DEADLINE)
    return None if deadline is None else max(0.0, float(deadline) - time.monotonic())


@cache
def collective_timeout() -> timedelta:
    """Timeout of this process's collectives, as of the first call: beyond the pool's own deadline.

    The pool comes first, as it can tell which rank is late. ``PATIENCE`` where there is no deadline.
    """
    left = seconds_left()
    return PATIENCE if left is None else timedelta(seconds=left + 60.0)


def wait_for(work: Any) -> None:
    """Wait for a collective that was started with ``async_op``: a rank whose stack ends here waits for others."""
    work.wait()
