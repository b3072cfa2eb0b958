"""Sequential write rate of a disk: the ceiling of GraphFlat's speed when it writes shards."""

import os
import time
from pathlib import Path

BLOCK_BYTES = 8 << 20
MOST_BYTES = 1 << 30
TRIES = 3


def write_rates(folder: Path, size: int) -> dict[str, float]:
    """Bytes per second of a sequential write of ``size`` bytes (at most 1 GiB) into ``folder``, the fastest of 3.

    ``write_rate`` is timed until the kernel has buffered the bytes, as for shards; ``synced_write_rate`` until they are
    on disk.
    """
    block, count = os.urandom(BLOCK_BYTES), max(1, min(size, MOST_BYTES) // BLOCK_BYTES)
    path = folder / "rate"
    buffered_seconds, synced_seconds = [], []
    for _ in range(TRIES):
        os.sync()
        started = time.perf_counter()
        with path.open("wb", buffering=0) as file:
            for _ in range(count):
                file.write(block)
            buffered_seconds.append(time.perf_counter() - started)
            os.fsync(file.fileno())
            synced_seconds.append(time.perf_counter() - started)
        path.unlink()
    total = count * BLOCK_BYTES
    return {"write_rate": total / min(buffered_seconds), "synced_write_rate": total / min(synced_seconds)}
