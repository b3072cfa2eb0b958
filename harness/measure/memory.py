"""Memory of process trees in bytes: proportional set size, so that shared pages count once over all processes."""

import ctypes
import gc
import os
import resource
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from harness.launcher.process import members

INTERVAL = 0.01


def proportional(pids: list[int]) -> int:
    """Sum the PSS of processes (``/proc/<pid>/smaps_rollup``); those that are gone count nothing."""
    total = 0
    for pid in pids:
        try:
            lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
        except OSError:
            continue
        total += sum(int(line.split()[1]) for line in lines if line.startswith("Pss:")) * 1024
    return total


def total() -> int:
    """Memory that processes here may use together: of the machine, or of the control group where that is less."""
    machine = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    limits = [machine]
    for name in ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"):
        path = Path(name)
        if path.exists() and (text := path.read_text().strip()).isdigit():
            limits.append(int(text))
    return min(limits)


def resident() -> int:
    """PSS of this process and of the others of its session when it leads one."""
    return proportional(members(os.getpid()) or [os.getpid()])


def trim() -> None:
    """Give freed blocks back to the kernel, so that what stays resident is in use; glibc only."""
    gc.collect()
    if hasattr(library := ctypes.CDLL(None), "malloc_trim"):
        library.malloc_trim(0)


def limit_data(limit: int) -> None:
    """Let this process ask for at most ``limit`` bytes, and be the kernel's first victim: its end, nobody else's."""
    _, hard = resource.getrlimit(resource.RLIMIT_DATA)
    limit = limit if hard == resource.RLIM_INFINITY else min(limit, hard)
    resource.setrlimit(resource.RLIMIT_DATA, (limit, hard))
    Path("/proc/self/oom_score_adj").write_text("1000")


class HighWater:
    """The kernel's own mark of this process, set back when made: no look sees the height of a short call."""

    def __init__(self) -> None:
        with suppress(OSError):  # a kernel without it leaves the mark where it was, and too little growth is told
            Path("/proc/self/clear_refs").write_text("5")
        self.start = _own("VmHWM")

    def growth(self) -> int:
        """Bytes by which resident memory passed what it was at the start, at its highest."""
        return max(0, _own("VmHWM") - self.start)


def _own(key: str) -> int:
    lines = Path("/proc/self/status").read_text().splitlines()
    return next((int(line.split()[1]) * 1024 for line in lines if line.startswith(f"{key}:")), 0)


class Peak:
    """The largest PSS seen."""

    bytes: int = 0

    def see(self, pids: list[int]) -> None:
        """Look once."""
        self.bytes = max(self.bytes, proportional(pids))


@contextmanager
def watched_from_inside() -> Iterator[Peak]:
    """Watch this very process from a thread of its own, where no parent can."""
    peak, ended = Peak(), threading.Event()

    def watch() -> None:
        while not ended.wait(INTERVAL):
            peak.see([os.getpid()])

    thread = threading.Thread(target=watch)
    thread.start()
    try:
        yield peak
    finally:
        ended.set()
        thread.join()
        peak.see([os.getpid()])
