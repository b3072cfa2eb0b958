"""Dropout alone beside torch's, and beside one pass that reads and writes the same bytes; float32, in turns.

    python -m tests.backends.kernels.dropout_rate

Medians of calls in turns, with the allocator ``tuned``, for 1 thread and for all. Dropout writes a new result at each
call; the pass writes one that is there already, on huge pages as our results are.
"""

import argparse
import os
import statistics
import sys
import time

import torch

from backends.kernels import Mask, dropout
from backends.kernels.buffers import empty_like
from harness.launcher.allocators import THRESHOLDS

WIDTH = 1024
SIZES = {"in cache": 256, "beyond the cache": 1 << 16}  # rows: 1 MiB and 256 MiB
TURNS = 15
LEAST = 0.02  # seconds of calls in a turn
FORMS = ("ours", "torch", "pass")


def seconds_of(x: torch.Tensor, rate: float) -> dict[str, float]:
    """Median seconds of a call of each form."""
    out = empty_like(x)
    calls = {
        "ours": lambda: dropout(x, Mask(rate, 7)),
        "torch": lambda: torch.nn.functional.dropout(x, rate),
        "pass": lambda: torch.mul(x, 2.0, out=out),
    }
    counts, samples = {}, {form: [] for form in FORMS}
    for form, call in calls.items():
        call()
        counts[form] = max(1, int(LEAST / timed(call, 3)))
    for _ in range(TURNS):
        for form, call in calls.items():
            samples[form].append(timed(call, counts[form]))
    return {form: statistics.median(values) for form, values in samples.items()}


def timed(call, count: int) -> float:
    """Mean seconds of ``count`` calls."""
    start = time.perf_counter()
    for _ in range(count):
        call()
    return (time.perf_counter() - start) / count


def main() -> None:
    """Print a row per size and number of threads, in a process that has the allocator's variables."""
    if not THRESHOLDS.keys() <= os.environ.keys():
        command = [sys.executable, "-m", "tests.backends.kernels.dropout_rate", *sys.argv[1:]]
        os.execve(sys.executable, command, os.environ | THRESHOLDS)
    parser = argparse.ArgumentParser("python -m tests.backends.kernels.dropout_rate", description=__doc__)
    parser.add_argument("--rate", type=float, default=0.5, help="share of entries that are dropped (default 0.5)")
    rate = parser.parse_args().rate
    for threads in sorted({1, len(os.sched_getaffinity(0))}):
        torch.set_num_threads(threads)
        for name, rows in SIZES.items():
            seconds = seconds_of(torch.rand(rows, WIDTH), rate)
            ours = seconds["ours"]
            print(
                f"{threads} threads, {name}: {1e3 * ours:.3f} ms, {seconds['torch'] / ours:.1f}x as fast as torch's, "
                f"{seconds['pass'] / ours:.2f}x as fast as a pass",
                flush=True,
            )


if __name__ == "__main__":
    main()
