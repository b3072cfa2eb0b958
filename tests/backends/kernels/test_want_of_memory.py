"""Want of memory inside of a kernel's threads is a MemoryError, not the end of the process."""

import resource
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from backends.kernels.extension import extension

LEAVES, SPARE = 1 << 22, 96 << 20


class Star:
    """A centre with many leaves: what a thread notes of the centre grows with its edges."""

    def __init__(self, leaves: int) -> None:
        self.nodes = leaves + 1
        self.starts = np.concatenate(([0], np.arange(leaves, 2 * leaves + 1)))
        self.neighbours = np.concatenate((np.arange(1, self.nodes), np.zeros(leaves))).astype(np.int32)
        self.weights = np.ones((self.nodes, 1), dtype=np.int64)
        self.labels, self.loads = np.arange(self.nodes, dtype=np.int32), self.weights.copy()
        self.marks = np.zeros(2 * leaves, dtype=np.uint8)

    @property
    def arrays(self):
        return self.starts, self.neighbours, None, self.weights

    def cluster(self) -> None:
        bounds = np.array([4], dtype=np.int64)
        extension.cluster(*self.arrays, bounds, None, 1, 0, self.labels, self.loads, 2)

    def mark_heaviest(self) -> None:
        extension.mark_heaviest(*self.arrays, 1, self.marks, 2)


def run(step: str) -> None:
    star = Star(LEAVES)
    getattr(Star(1 << 16), step)()  # the threads and their heaps are there before memory ends
    used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + SPARE, resource.RLIM_INFINITY))
    getattr(star, step)()


@pytest.mark.parametrize("step", ["cluster", "mark_heaviest"])
def test_want_of_memory_inside_of_threads_is_an_exception(step):
    command = [sys.executable, "-c", f"from {__name__} import run; run({step!r})"]
    process = subprocess.run(command, capture_output=True, text=True)
    assert (process.returncode, process.stderr.splitlines()[-1:]) == (1, ["MemoryError: std::bad_alloc"])
