"""Counter-based randomness: every random choice is a hash of (seed, purpose, id), so it has no order and no state."""

import zlib

import numpy as np
from numpy.typing import NDArray

_GAMMA = np.uint64(0x9E3779B97F4A7C15)
_MIX_1 = np.uint64(0xBF58476D1CE4E5B9)
_MIX_2 = np.uint64(0x94D049BB133111EB)


def _mix(value: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Finalise 64-bit words (splitmix64, Steele, Lea and Flood, OOPSLA 2014)."""
    with np.errstate(over="ignore"):
        value = (value ^ (value >> np.uint64(30))) * _MIX_1
        value = (value ^ (value >> np.uint64(27))) * _MIX_2
    return value ^ (value >> np.uint64(31))


def stream(seed: int, purpose: str) -> int:
    """Return the 64-bit key of one purpose under one seed."""
    words = np.array([seed & 0xFFFFFFFFFFFFFFFF, zlib.crc32(purpose.encode())], dtype=np.uint64)
    with np.errstate(over="ignore"):
        return int(_mix(_mix(words[:1] + _GAMMA) ^ (words[1:] * _GAMMA))[0])


def hash_ids(seed: int, purpose: str, ids: NDArray[np.integer]) -> NDArray[np.uint64]:
    """Hash integer ids to uniform 64-bit words; equal arguments give equal words on every machine."""
    with np.errstate(over="ignore"):
        keys = np.asarray(ids).astype(np.uint64) * _GAMMA + np.uint64(stream(seed, purpose))
        return _mix(_mix(keys) + _GAMMA)


def uniform(seed: int, purpose: str, ids: NDArray[np.integer]) -> NDArray[np.float64]:
    """Map ids to uniform numbers in (0, 1]: ``u = (h + 1) / 2^53`` with the 53 high bits of the hash."""
    return ((hash_ids(seed, purpose, ids) >> np.uint64(11)) + np.uint64(1)).astype(np.float64) * 2.0**-53


def permutation(seed: int, purpose: str, count: int) -> NDArray[np.int64]:
    """Return a permutation of ``range(count)``: the ids ordered by their hash, ties by id."""
    return np.argsort(hash_ids(seed, purpose, np.arange(count)), kind="stable")
