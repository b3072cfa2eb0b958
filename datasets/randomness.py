"""Counter-based random numbers: every choice is a hash of (seed, purpose, id), independent of order and threads."""

import zlib
from operator import index

import numpy as np
from numpy.typing import NDArray

GAMMA, MIX_1, MIX_2 = 0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB
_GAMMA, _MIX_1, _MIX_2 = (np.uint64(word) for word in (GAMMA, MIX_1, MIX_2))
_WORD = (1 << 64) - 1


def _mix(value: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Finalize 64-bit words (splitmix64, Steele, Lea and Flood, OOPSLA 2014)."""
    with np.errstate(over="ignore"):
        value = (value ^ (value >> np.uint64(30))) * _MIX_1
        value = (value ^ (value >> np.uint64(27))) * _MIX_2
    return value ^ (value >> np.uint64(31))


def stream(seed: int, purpose: str) -> int:
    """Return the 64-bit key of one purpose under one seed, any whole number: it counts modulo 2^64."""
    return _mix_word(_mix_word(index(seed) + GAMMA & _WORD) ^ (zlib.crc32(purpose.encode()) * GAMMA & _WORD))


def _mix_word(value: int) -> int:
    """Finalize one word as ``_mix`` does, ten times as fast."""
    value = (value ^ value >> 30) * MIX_1 & _WORD
    value = (value ^ value >> 27) * MIX_2 & _WORD
    return value ^ value >> 31


def hash_ids(seed: int, purpose: str, ids: NDArray[np.integer]) -> NDArray[np.uint64]:
    """Hash integer ids to uniform 64-bit words; equal arguments give equal words on every machine."""
    return keyed(stream(seed, purpose), ids)


def keyed(key: int | NDArray[np.uint64], ids: NDArray[np.integer]) -> NDArray[np.uint64]:
    """Hash ids under a key, or each under its own [ids]; a hash is itself a key, so that hashes of tuples chain."""
    with np.errstate(over="ignore"):
        words = np.asarray(ids).astype(np.uint64) * _GAMMA + np.asarray(key, dtype=np.uint64)
        return _mix(_mix(words) + _GAMMA)


def uniform(seed: int, purpose: str, ids: NDArray[np.integer]) -> NDArray[np.float64]:
    """Map ids to uniform numbers in (0, 1]: ``u = (h + 1) / 2^53`` with the 53 high bits of the hash."""
    return unit_interval(hash_ids(seed, purpose, ids))


def unit_interval(hashes: NDArray[np.uint64]) -> NDArray[np.float64]:
    """Map hashes to uniform numbers in (0, 1]."""
    return ((hashes >> np.uint64(11)) + np.uint64(1)).astype(np.float64) * 2.0**-53


def below(hashes: NDArray[np.uint64], bounds: NDArray[np.integer]) -> NDArray[np.int64]:
    """Map each hash to an integer from 0 to below its bound: the high word of their 128-bit product."""
    half, low = np.uint64(32), np.uint64((1 << 32) - 1)
    factors = np.asarray(bounds).astype(np.uint64)
    high_bits, low_bits, high_factor, low_factor = hashes >> half, hashes & low, factors >> half, factors & low
    with np.errstate(over="ignore"):
        middle = high_bits * low_factor + (low_bits * low_factor >> half)
        carried = low_bits * high_factor + (middle & low)
        return (high_bits * high_factor + (middle >> half) + (carried >> half)).astype(np.int64)


def logarithm(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Natural logarithm of normal positive numbers to about 1 ulp, by IEEE basic operations in a fixed order.

    Libraries differ in the last bit, and sampling keys must be equal on every machine.
    """
    mantissa, exponent = np.frexp(values)
    small = mantissa < np.sqrt(0.5)
    mantissa = np.where(small, mantissa + mantissa, mantissa)
    s = (mantissa - 1.0) / (mantissa + 1.0)
    square, series = s * s, np.zeros_like(s)
    for odd in range(21, 0, -2):  # 2 artanh(s); the next term is below 2^-53
        series = series * square + 1.0 / odd
    integer_part: NDArray[np.float64] = (exponent - small) * np.log(2.0)
    return integer_part + 2.0 * s * series


def permutation(seed: int, purpose: str, count: int) -> NDArray[np.int64]:
    """Return a permutation of ``range(count)``: the ids ordered by their hash, ties by id."""
    return np.argsort(hash_ids(seed, purpose, np.arange(count)), kind="stable")
