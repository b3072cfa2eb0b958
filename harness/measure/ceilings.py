"""What this machine reaches at its best, measured on the spot: streams, multiply-adds, rows gathered from a table."""

import time
from collections.abc import Callable
from functools import partial
from itertools import product

import numpy as np
import torch
from numpy.typing import NDArray

from backends.kernels.ceiling import gathering, read_stream, table_of, triad
from harness.measure import shared as once

LINE = 64
STREAM_BYTES = 96 << 20
GATHER_BYTES = 64 << 20
TRIAL_BYTES = 512 << 20  # of a longer list, as much is read to find the best way
SEGMENTS = 16
AHEAD = (0, 4, 8, 16, 32)  # rows prefetched before they are used; what is best depends on width and caches
BLOCKS = (64, 1 << 10, 1 << 14)  # rows read before the next columns of theirs, where they are wide
GROUP = 64  # values of a row that are read together
REPEATS = 5
TRIED = 0.4  # seconds for which a short call is repeated
Rows = NDArray[np.integer]


def best_of(
    call: Callable[[], object],
    repeats: int = REPEATS,
    seconds: float = 0.0,
    before: Callable[[], object] = lambda: None,
) -> float:
    """Least seconds of some calls after one that does not count: a ceiling is what was reached once.

    Calls are repeated beyond ``repeats`` until they took ``seconds`` together; ``before`` precedes each, not counted.
    """
    call()
    found: list[float] = []
    while len(found) < repeats or sum(found) < seconds:
        before()
        start = time.perf_counter()
        call()
        found.append(time.perf_counter() - start)
    return min(found)


def read_bandwidth(threads: int) -> float:
    """Bytes per second of reading an array beyond the caches."""

    def measure() -> float:
        torch.set_num_threads(threads)
        source = table_of(STREAM_BYTES // 4, 1)
        return STREAM_BYTES / best_of(lambda: read_stream(source, threads))

    return once.found(f"read, {threads} threads", measure)


def triad_bandwidth(threads: int) -> float:
    """Bytes per second of ``a = b + s * c`` over arrays beyond the caches, the read before the write counted."""

    def measure() -> float:
        torch.set_num_threads(threads)
        a, b, c = (table_of(STREAM_BYTES // 4, 1) for _ in range(3))
        return 4 * STREAM_BYTES / best_of(lambda: triad(a, b, c, 2.0, threads))

    return once.found(f"triad, {threads} threads", measure)


def stream_bandwidth(threads: int) -> float:
    """Bytes per second of the faster of the two streams."""
    return max(read_bandwidth(threads), triad_bandwidth(threads))


def multiply_add_rate(threads: int, size: int = 1024) -> float:
    """Operations per second of a dense float32 product, two per multiply-add."""

    def measure() -> float:
        torch.set_num_threads(threads)
        a, out = torch.ones(size, size), torch.empty(size, size)
        return 2 * size**3 / best_of(lambda: torch.mm(a, a, out=out))

    return once.found(f"multiply-adds, {threads} threads", measure)


def gather_bandwidth(rows: int, width: int, threads: int) -> float:
    """Bytes per second, in whole lines, of reading random rows of a table [rows, width]: no order, no structure."""

    def measure() -> float:
        count = max(1, GATHER_BYTES // _row_bytes(width))
        random = np.random.Generator(np.random.Philox(key=1))
        indices = random.integers(0, rows, count, dtype=np.int32)
        return count * _row_bytes(width) / _least_seconds(indices, rows, width, threads)

    return once.found(f"random rows, {rows} of {width}, {threads} threads", measure)


def order_seconds(indices: Rows, rows: int, width: int, threads: int, between: int = 0) -> float:
    """Seconds of reading the rows ``indices`` of a table [rows, width] in just that order, and doing nothing else.

    Hubs and neighbours meet the caches as they do in a kernel that walks the edges in this order. All of them are read:
    in a part of the list more rows are met for the first time, and it would take longer than its share. ``between``
    other bytes are read before each time, so that as much of the table is left in the caches as a timed call finds.
    """
    if len(indices) == 0:
        return 0.0
    between = min(between, STREAM_BYTES)
    name = f"rows {once.digest(indices)}, {rows} of {width}, {threads} threads, after {between} bytes"
    return once.found(name, lambda: _least_seconds(indices, rows, width, threads, between))


def _row_bytes(width: int) -> int:
    return -(-width * 4 // LINE) * LINE


def _segments(indices: Rows, most: int) -> Rows:
    """At most ``most`` of a list, in runs that are spread over it."""
    if len(indices) <= most:
        return indices
    starts = np.linspace(0, len(indices) - most // SEGMENTS, SEGMENTS).astype(np.int64)
    return np.concatenate([indices[start : start + max(1, most // SEGMENTS)] for start in starts])


def _least_seconds(indices: Rows, rows: int, width: int, threads: int, between: int = 0) -> float:
    """Seconds of reading a list of rows in the way that is fastest on a part of it, after ``between`` other bytes."""
    torch.set_num_threads(threads)
    table = table_of(rows, width)
    others = partial(read_stream, table_of(between // 4, 1), threads)
    parts = (_segments(indices, max(1, TRIAL_BYTES // _row_bytes(width))), indices)
    trial, whole = (gathering(table, torch.from_numpy(np.array(part, dtype=np.int32))) for part in parts)
    ways = list(product(AHEAD, BLOCKS if width > GROUP else BLOCKS[1:2]))
    _, way = min((best_of(partial(trial, *way, threads), 2, before=others), way) for way in ways)
    return best_of(partial(whole, *way, threads), seconds=TRIED, before=others)
