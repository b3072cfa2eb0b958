"""Memory of process trees in bytes, as proportional set sizes (PSS): shared pages count once over all processes."""

import gc
import os
import resource
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from datasets.high_water import HighWater
from harness.launcher import allocators
from harness.launcher.process import members
from harness.measure import control_group
from harness.measure.heap import MappedBlocks

INTERVAL = 0.01
_marks: list[tuple[MappedBlocks, HighWater]] = []


def proportional(pids: list[int]) -> int:
    """Sum the PSS of processes; those that are gone count nothing."""
    return _sizes(pids)["Pss:"]


def _sizes(pids: list[int]) -> dict[str, int]:
    """Sum PSS, that of anonymous pages, and bytes on transparent huge pages (``/proc/<pid>/smaps_rollup``)."""
    totals = {"Pss:": 0, "Pss_Anon:": 0, "AnonHugePages:": 0}
    for pid in pids:
        try:
            lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
        except OSError:
            continue
        for key, size, *_ in (line.split() for line in lines):
            if key in totals:
                totals[key] += int(size) * 1024
    return totals


def total() -> int:
    """Memory that processes here may use together: of the machine, or of the control group where that is less."""
    machine = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return min(machine, control_group.memory_limit() or machine)


def resident() -> int:
    """PSS of this process, and of the rest of its process tree when it leads one."""
    return proportional(_tree())


def anonymous() -> int:
    """PSS of the pages that no file backs, of this process and of the rest of its process tree when it leads one."""
    return _sizes(_tree())["Pss_Anon:"]


def _tree() -> list[int]:
    return members(os.getpid()) or [os.getpid()]


def trim() -> None:
    """Return freed blocks to the kernel, so that all that stays resident is in use."""
    gc.collect()
    allocators.return_memory()


def mark() -> None:
    """Measure the growth of this process, the cell's or one of its ranks, from now on, with large blocks mapped."""
    growth()
    _marks.append((MappedBlocks(), HighWater()))


def growth() -> int:
    """Return by how many bytes the peak since ``mark`` exceeds what was resident then, and end the mark.

    0 for a rank that started after it.
    """
    if not _marks:
        return 0
    blocks, high_water = _marks.pop()
    grown = high_water.growth()
    blocks.end()
    return grown


def limit_data(limit: int) -> None:
    """Limit the data of this process to ``limit`` bytes, and let the kernel end it before others when memory runs out.

    Each process that it starts inherits the limit whole; a pool of ranks divides it.
    """
    _, hard = resource.getrlimit(resource.RLIMIT_DATA)
    limit = limit if hard == resource.RLIM_INFINITY else min(limit, hard)
    resource.setrlimit(resource.RLIMIT_DATA, (limit, hard))
    Path("/proc/self/oom_score_adj").write_text("1000")


class Peak:
    """The largest of several readings, bytes: of PSS, and of memory on transparent huge pages."""

    bytes: int = 0
    huge_pages: int = 0

    def read(self, pids: list[int]) -> None:
        """Take one reading."""
        sizes = _sizes(pids)
        self.bytes = max(self.bytes, sizes["Pss:"])
        self.huge_pages = max(self.huge_pages, sizes["AnonHugePages:"])


@contextmanager
def watch_this_process() -> Iterator[Peak]:
    """Read the memory of this process from a thread, for cells without a parent process that does it."""
    peak, ended = Peak(), threading.Event()

    def watch() -> None:
        while not ended.wait(INTERVAL):
            peak.read([os.getpid()])

    thread = threading.Thread(target=watch)
    thread.start()
    try:
        yield peak
    finally:
        ended.set()
        thread.join()
        peak.read([os.getpid()])
