"""Seconds of named phases; CPU seconds and page faults of a process with its ended children."""

import resource
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass


class Clock:
    """Adds up the seconds of named phases; ``now`` may be a simulated time, ``synchronize`` waits for a device.

    Phases may run in several threads at once; each counts for itself, so their sum can exceed the wall clock.
    """

    def __init__(
        self, now: Callable[[], float] = time.perf_counter, synchronize: Callable[[], None] | None = None
    ) -> None:
        self.seconds: dict[str, float] = {}
        self._now, self._synchronize, self._lock = now, synchronize, threading.Lock()

    def now(self) -> float:
        """Seconds on this clock, once the device has finished its queue."""
        if self._synchronize is not None:
            self._synchronize()
        return self._now()

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        """Count the seconds inside the context to ``name``."""
        start = self.now()
        try:
            yield
        finally:
            seconds = self.now() - start
            with self._lock:
                self.seconds[name] = self.seconds.get(name, 0.0) + seconds


def cpu_seconds() -> float:
    """CPU seconds, user and system, of this process and of its children that have ended."""
    used = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(usage.ru_utime + usage.ru_stime for usage in used)


@dataclass(frozen=True)
class PageFaults:
    """Page faults without a disk (minor) and with one (major)."""

    minor: int
    major: int

    def since(self, before: "PageFaults") -> "PageFaults":
        """The page faults between an earlier reading and this one."""
        return PageFaults(self.minor - before.minor, self.major - before.major)


def page_faults() -> PageFaults:
    """Page faults so far of this process and of its children that have ended."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return PageFaults(sum(usage.ru_minflt for usage in used), sum(usage.ru_majflt for usage in used))
