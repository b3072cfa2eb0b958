"""The deadline by which this process must answer the process that started it."""

import os
import time

from backends.contract import DEADLINE


def seconds_left() -> float | None:
    """Seconds until the deadline in ``$HARNESS_DEADLINE``, at least 0; ``None`` where there is no deadline."""
    deadline = os.environ.get(DEADLINE)
    return None if deadline is None else max(0.0, float(deadline) - time.monotonic())
