"""How fast the disk takes bytes one after the other: what GraphFlat's shards cannot outrun."""

import os
import time
from pathlib import Path

BLOCK = 8 << 20
MOST = 1 << 30
TRIES = 3


def write_rates(folder: Path, size: int) -> dict[str, float]:
    """Bytes per second of a plain sequential write of ``size`` bytes (at most 1 GiB) into ``folder``, fastest of 3.

    ``write_rate`` ends when the kernel has taken the bytes, as writing shards does; ``synced_write_rate`` when the disk
    has them.
    """
    block, count = os.urandom(BLOCK), max(1, min(size, MOST) // BLOCK)
    path = folder / "rate"
    taken, synced = [], []
    for _ in range(TRIES):
        os.sync()
        started = time.perf_counter()
        with path.open("wb", buffering=0) as file:
            for _ in range(count):
                file.write(block)
            taken.append(time.perf_counter() - started)
            os.fsync(file.fileno())
            synced.append(time.perf_counter() - started)
        path.unlink()
    return {"write_rate": count * BLOCK / min(taken), "synced_write_rate": count * BLOCK / min(synced)}
