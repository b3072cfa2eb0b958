"""Ceilings of this machine, measured when they are needed: streams, multiply-adds, rows gathered from a table."""

import time
from collections.abc import Callable
from functools import partial
from itertools import product

import numpy as np
import torch
from numpy.typing import NDArray

from backends.kernels.ceiling import gathering, read_stream, table_of, triad
from harness.measure.shared_values import digest_of_arrays, get_or_compute

LINE = 64
STREAM_BYTES = 96 << 20
GATHER_BYTES = 64 << 20
TRIAL_BYTES = 512 << 20  # of a longer list a part is read to choose distance and block size
SEGMENTS = 16
AHEAD = (0, 4, 8, 16, 32)  # distances of prefetching in rows; the best depends on width and caches
BLOCKS = (64, 1 << 10, 1 << 14)  # rows in a block; of wide rows the first GROUP values of a block are read first
GROUP = 64  # values of a row that are read together
REPEATS = 5
TRIAL_SECONDS = 0.4  # a short call is repeated for that long
Rows = NDArray[np.integer]


def best_of(
    call: Callable[[], object],
    repeats: int = REPEATS,
    seconds: float = 0.0,
    before: Callable[[], object] = lambda: None,
) -> float:
    """Least seconds of several calls after one that does not count, because a ceiling is the best speed reached.

    Calls are repeated beyond ``repeats`` until they took ``seconds`` together; ``before`` precedes each, not counted.
    """
    call()
    durations: list[float] = []
    while len(durations) < repeats or sum(durations) < seconds:
        before()
        start = time.perf_counter()
        call()
        durations.append(time.perf_counter() - start)
    return min(durations)


def read_bandwidth(threads: int) -> float:
    """Bytes per second of reading an array beyond the caches."""

    def measure() -> float:
        torch.set_num_threads(threads)
        source = table_of(STREAM_BYTES // 4, 1)
        return STREAM_BYTES / best_of(lambda: read_stream(source, threads))

    return get_or_compute(f"read, {threads} threads", measure)


def triad_bandwidth(threads: int) -> float:
    """Bytes per second of ``a = b + s * c`` over arrays beyond the caches, the read before the write counted."""

    def measure() -> float:
        torch.set_num_threads(threads)
        a, b, c = (table_of(STREAM_BYTES // 4, 1) for _ in range(3))
        return 4 * STREAM_BYTES / best_of(lambda: triad(a, b, c, 2.0, threads))

    return get_or_compute(f"triad, {threads} threads", measure)


def stream_bandwidth(threads: int) -> float:
    """Bytes per second of the faster of the two streams."""
    return max(read_bandwidth(threads), triad_bandwidth(threads))


def multiply_add_rate(threads: int, size: int = 1024) -> float:
    """Operations per second of a dense float32 product, two per multiply-add."""

    def measure() -> float:
        torch.set_num_threads(threads)
        a, out = torch.ones(size, size), torch.empty(size, size)
        return 2 * size**3 / best_of(lambda: torch.mm(a, a, out=out))

    return get_or_compute(f"multiply-adds, {threads} threads", measure)


def gather_bandwidth(rows: int, width: int, threads: int) -> float:
    """Bytes per second, in whole lines, of reading random rows of a table [rows, width]: no order, no structure."""

    def measure() -> float:
        count = max(1, GATHER_BYTES // _row_bytes(width))
        random = np.random.Generator(np.random.Philox(key=1))
        indices = random.integers(0, rows, count, dtype=np.int32)
        return count * _row_bytes(width) / _least_seconds(indices, rows, width, threads)

    return get_or_compute(f"random rows, {rows} of {width}, {threads} threads", measure)


def order_seconds(indices: Rows, rows: int, width: int, threads: int, between: int = 0) -> float:
    """Seconds of only reading the rows ``indices`` of a table [rows, width], in that order.

    Hubs and neighbours hit the caches as they do in a kernel that walks the edges in this order. The list is read
    whole, because a part of it would have more cold misses per row. ``between`` other bytes are
    read before each pass, so that as much of the table is left in the caches as when a timed call starts.
    """
    if len(indices) == 0:
        return 0.0
    between = min(between, STREAM_BYTES)
    name = f"rows {digest_of_arrays(indices)}, {rows} of {width}, {threads} threads, after {between} bytes"
    return get_or_compute(name, lambda: _least_seconds(indices, rows, width, threads, between))


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
