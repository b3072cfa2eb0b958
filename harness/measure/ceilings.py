"""Ceilings of this machine, measured when they are needed: streams, multiply-adds, rows gathered from a table."""

import os
from dataclasses import dataclass
from functools import partial
from itertools import product

import numpy as np
import torch
from numpy.typing import NDArray

from backends.kernels.ceiling import gathering, read_stream, table_of, triad
from backends.kernels.extension import description
from harness.measure.best import best_of, stable_best
from harness.measure.environment import last_level_bytes
from harness.measure.memory import total
from harness.measure.shared_values import best_of_processes, digest_of_arrays

LINE = 64
STREAM_BYTES = 96 << 20  # of the arrays beyond the caches at least
CACHES_IN_STREAM = 4  # an array beyond the caches is so many times as large as they are
MEMORY_OVER_STREAM = 32  # and memory so many times as large as an array, three of which are streamed at once
SIZES = (1 << 18, 1 << 20, 1 << 22, 1 << 24, STREAM_BYTES)  # bytes of the smaller arrays that streams are measured over
ONE_THREAD_BYTES = 1 << 24  # up to here one thread may be faster than several, above all on a busy machine
SQUARES = (256, 512, 1024)  # rows of the matrices that multiply-adds are measured with
LARGER_SQUARES = (2048, 4096)  # also of many threads, whose start would slow the smaller ones down
LEAST_WORK = 1 << 28  # multiply-adds of each thread that take many times as long as starting it
GATHER_BYTES = 64 << 20
SHORT_BYTES = 1 << 20  # rows of fewer bytes are read several times
TRIAL_BYTES = 512 << 20  # of a longer list a part is read to choose distance and block size
SEGMENTS = 16
AHEAD = (0, 4, 8, 16, 32)  # distances of prefetching in rows; the best depends on width and caches
BLOCKS = (64, 1 << 10, 1 << 14)  # rows in a block; of wide rows the first GROUP values of a block are read first
GROUP = 64  # values of a row that are read together
TRIAL_SECONDS = 0.4  # a short call is repeated for that long
Rows = NDArray[np.integer]


@dataclass(frozen=True)
class Cpu:
    """The cores of this machine, used by a number of threads."""

    threads: int

    @property
    def kernel(self) -> str:
        """How the kernels that measure were built."""
        return description()

    def read_bandwidth(self, size: int | None = None) -> float:
        """Bytes per second of reading an array of ``size`` bytes; by default one beyond the caches."""
        size = size or stream_bytes()

        def measure() -> float:
            source = table_of(size // 4, 1)
            return size / stable_best([partial(read_stream, source, count) for count in _counts(self.threads, size)])

        return best_of_processes(f"read {size} bytes, {self.threads} threads", measure, max)

    def triad_bandwidth(self, size: int | None = None) -> float:
        """Bytes per second of ``a = b + s * c`` over arrays of ``size`` bytes, the read before the write counted."""
        size = size or stream_bytes()

        def measure() -> float:
            a, b, c = (table_of(size // 4, 1) for _ in range(3))
            calls = [partial(triad, a, b, c, 2.0, count) for count in _counts(self.threads, size)]
            return 4 * size / stable_best(calls)

        return best_of_processes(f"triad of {size} bytes, {self.threads} threads", measure, max)

    def stream_bandwidth(self, size: int | None = None) -> float:
        """Bytes per second of the faster of the two streams."""
        return max(self.read_bandwidth(size), self.triad_bandwidth(size))

    def fastest_bandwidth(self, size: float) -> float:
        """Bytes per second at which ``size`` bytes can move at most: those of arrays no larger, or of larger ones.

        Arrays that fit a cache move at its speed; those below 256 KiB count as of 256 KiB, because starting a call
        would be most of their time.
        """
        sizes = sorted({*SIZES, stream_bytes()})
        largest_below = max((known for known in sizes if known <= size), default=sizes[0])
        return max(self.stream_bandwidth(known) for known in sizes if known >= largest_below)

    def multiply_add_rate(self) -> float:
        """Operations per second of a dense float32 product, two per multiply-add; of several sizes the fastest."""

        def measure() -> float:
            rates = []
            for size, count in _products(self.threads):
                torch.set_num_threads(count)
                a, out = torch.ones(size, size), torch.empty(size, size)
                rates.append(2 * size**3 / stable_best([partial(torch.mm, a, a, out=out)]))
            torch.set_num_threads(self.threads)
            return max(rates)

        return best_of_processes(f"multiply-adds, {self.threads} threads", measure, max)

    def gather_bandwidth(self, rows: int, width: int) -> float:
        """Bytes per second, in whole lines, of reading random rows of a table [rows, width]: no order, no structure."""

        def measure() -> float:
            count = max(1, GATHER_BYTES // _row_bytes(width))
            random = np.random.Generator(np.random.Philox(key=1))
            indices = random.integers(0, rows, count, dtype=np.int32)
            return count * _row_bytes(width) / _least_seconds(indices, rows, width, self.threads)

        return best_of_processes(f"random rows, {rows} of {width}, {self.threads} threads", measure, max)

    def order_seconds(self, indices: Rows, rows: int, width: int, between: int = 0) -> float:
        """Seconds of only reading the rows ``indices`` of a table [rows, width], in that order.

        Hubs and neighbours hit the caches as they do in a kernel that walks the edges in this order. The list is read
        whole, because a part of it would have more cold misses per row; a short one is read several times within a
        call, whose start would otherwise be most of the time. ``between`` other bytes are read before each pass, so
        that as much of the table is left in the caches as when a timed call starts.
        """
        if len(indices) == 0:
            return 0.0
        between = min(between, stream_bytes())
        name = f"rows {digest_of_arrays(indices)}, {rows} of {width}, {self.threads} threads, after {between} bytes"
        times = max(1, SHORT_BYTES // (len(indices) * _row_bytes(width)))
        repeated = np.tile(indices, times)

        def measure() -> float:
            counts = _counts(self.threads, len(repeated) * _row_bytes(width))
            return min(_least_seconds(repeated, rows, width, count, between) for count in counts) / times

        return best_of_processes(name, measure, min)


def stream_bytes() -> int:
    """Bytes of an array beyond the last-level caches of the usable cores, as far as memory allows."""
    beyond = CACHES_IN_STREAM * last_level_bytes(os.sched_getaffinity(0))
    return max(STREAM_BYTES, min(beyond, total() // MEMORY_OVER_STREAM))


def _counts(threads: int, size: int) -> tuple[int, ...]:
    """Numbers of threads to try with arrays of ``size`` bytes."""
    torch.set_num_threads(threads)
    return (1, threads) if size <= ONE_THREAD_BYTES and threads > 1 else (threads,)


def _products(threads: int) -> list[tuple[int, int]]:
    """Rows of square matrices and threads whose rates of multiply-adds are compared."""
    larger = [size for size in LARGER_SQUARES if (size // 2) ** 3 < threads * LEAST_WORK]
    return [*product(SQUARES, dict.fromkeys((1, threads))), *((size, threads) for size in larger)]


def _row_bytes(width: int) -> int:
    return -(-width * 4 // LINE) * LINE


def _segments(indices: Rows, most: int) -> Rows:
    """At most ``most`` entries of a list, in runs that are spread over it."""
    if len(indices) <= most:
        return indices
    starts = np.linspace(0, len(indices) - most // SEGMENTS, SEGMENTS).astype(np.int64)
    return np.concatenate([indices[start : start + max(1, most // SEGMENTS)] for start in starts])


def _least_seconds(indices: Rows, rows: int, width: int, threads: int, between: int = 0) -> float:
    """Seconds of reading rows after ``between`` other bytes, at the distance and block size fastest on a part."""
    torch.set_num_threads(threads)
    table = table_of(rows, width)
    others = partial(read_stream, table_of(between // 4, 1), threads)
    parts = (_segments(indices, max(1, TRIAL_BYTES // _row_bytes(width))), indices)
    trial, whole = (gathering(table, torch.from_numpy(np.array(part, dtype=np.int32))) for part in parts)
    variants = list(product(AHEAD, BLOCKS if width > GROUP else BLOCKS[1:2]))
    _, fastest = min((best_of(partial(trial, *variant, threads), 2, before=others), variant) for variant in variants)
    return best_of(partial(whole, *fastest, threads), seconds=TRIAL_SECONDS, before=others)
