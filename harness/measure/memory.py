"""Memory of process trees in bytes, as proportional set sizes (PSS): shared pages count once over all processes."""

import gc
import os
import resource
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from datasets.high_water import HighWater
from harness.launcher import allocators
from harness.launcher.process import members
from harness.measure import control_group
from harness.measure.heap import MappedBlocks

INTERVAL = 0.01
PROC = Path("/proc")
# Keys of smaps_rollup, and of status for kernels and sandboxes without it: there shared pages count in each process.
SIZES = {
    "Pss:": "resident",
    "Pss_Anon:": "anonymous",
    "AnonHugePages:": "huge_pages",
    "VmRSS:": "resident",
    "RssAnon:": "anonymous",
}
_marks: list[tuple[MappedBlocks, HighWater]] = []


def is_told() -> bool:
    """Whether the kernel tells the resident memory of a process, and how much of it no file backs."""
    return _sizes_of(os.getpid()).keys() >= {"resident", "anonymous"}


def proportional(pids: list[int]) -> int:
    """Sum the PSS of processes, their resident sizes where there is none; those that are gone count nothing."""
    return _sizes(pids).get("resident", 0)


def _sizes(pids: list[int]) -> dict[str, int]:
    """Sum ``resident`` and ``anonymous`` bytes, and those on transparent ``huge_pages``, as far as they are told."""
    totals: dict[str, int] = {}
    for pid in pids:
        for name, size in _sizes_of(pid).items():
            totals[name] = totals.get(name, 0) + size
    return totals


def _sizes_of(pid: int) -> dict[str, int]:
    """The sizes of one process; nothing of one that is gone."""
    sizes = _read_sizes(PROC / str(pid) / "smaps_rollup")
    return sizes if "anonymous" in sizes else _read_sizes(PROC / str(pid) / "status") | sizes


def _read_sizes(file: Path) -> dict[str, int]:
    try:
        fields = [line.split() for line in file.read_text(errors="replace").splitlines()]
    except OSError:
        return {}
    return {SIZES[words[0]]: int(words[1]) * 1024 for words in fields if words and words[0] in SIZES}


def total() -> int:
    """Memory that processes here may use together: of the machine, or of the control group where that is less."""
    machine = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return min(machine, control_group.memory_limit() or machine)


def resident() -> int:
    """PSS of this process, and of the rest of its process tree when it leads one."""
    return proportional(_tree())


def anonymous() -> int:
    """PSS of the pages that no file backs, of this process and of the rest of its process tree when it leads one."""
    return _sizes(_tree()).get("anonymous", 0)


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

    0 for a rank that started after it, and where the kernel does not count the peak.
    """
    if not _marks:
        return 0
    blocks, high_water = _marks.pop()
    grown = high_water.growth() or 0
    blocks.end()
    return grown


def limit_data(limit: int) -> None:
    """Limit the data of this process to ``limit`` bytes, and let the kernel end it before others when memory runs out.

    Each process that it starts inherits the limit whole; a pool of ranks divides it.
    """
    _, hard = resource.getrlimit(resource.RLIMIT_DATA)
    limit = limit if hard == resource.RLIM_INFINITY else min(limit, hard)
    resource.setrlimit(resource.RLIMIT_DATA, (limit, hard))
    with suppress(OSError):  # some containers deny it
        Path("/proc/self/oom_score_adj").write_text("1000")


@contextmanager
def within_machine() -> Iterator[None]:
    """Let this process allocate no more than the machine has, as long as the block: more raises MemoryError.

    Without it the kernel promises any number of small allocations, and ends the process when it cannot keep that.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_DATA)
    allocated = _allocated()
    limit = None if allocated is None else allocated + max(total() - proportional([os.getpid()]), 0)
    limits = [value for value in (limit, soft, hard) if value is not None and value != resource.RLIM_INFINITY]
    if limit is not None:
        resource.setrlimit(resource.RLIMIT_DATA, (min(limits), hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_DATA, (soft, hard))


def _allocated() -> int | None:
    """Bytes that ``RLIMIT_DATA`` counts for this process, resident or not; ``None`` where the kernel does not tell."""
    with suppress(OSError, ValueError, IndexError):
        lines = (PROC / "self" / "status").read_text(errors="replace").splitlines()
        return next((int(line.split()[1]) * 1024 for line in lines if line.startswith("VmData:")), None)
    return None


class Peak:
    """The largest of several readings, bytes: of PSS, and of memory on transparent huge pages."""

    bytes: int = 0
    huge_pages: int | None = None

    def read(self, pids: list[int]) -> None:
        """Take one reading."""
        sizes = _sizes(pids)
        self.bytes = max(self.bytes, sizes.get("resident", 0))
        if "huge_pages" in sizes:
            self.huge_pages = max(self.huge_pages or 0, sizes["huge_pages"])

    def on_huge_pages(self) -> dict[str, int]:
        """The bytes on huge pages under the key ``huge_pages``, nothing where the kernel does not tell them."""
        return {} if self.huge_pages is None else {"huge_pages": self.huge_pages}


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
