"""Distributions of synthetic graphs: a bounded power law, and near-normal noise by hash."""

import numpy as np
from numpy.typing import NDArray

from datasets.randomness import hash_ids
from datasets.synthetic.chunks import by_chunks

_BLOCK = 1 << 19


def power_law(u: NDArray[np.float64], exponent: float, mean: float, high: float) -> NDArray[np.float64]:
    """Map uniform numbers to a power law ``P(X > x) ~ x^-exponent`` that ends at ``high`` and has this ``mean``.

    Raises ValueError unless ``0 < mean < high`` and ``exponent > 1``.
    """
    if not 0 < mean < high or exponent <= 1:
        raise ValueError(
            f"power law with mean {mean}, largest {high}, exponent {exponent}: "
            "allowed are 0 < mean < largest and exponent > 1"
        )
    below, above = mean * 1e-6, mean
    for _ in range(100):
        low = (below + above) / 2
        below, above = (low, above) if _mean(exponent, low, high) < mean else (below, low)
    drawn: NDArray[np.float64] = np.minimum((u * low**-exponent + (1 - u) * high**-exponent) ** (-1 / exponent), high)
    return drawn


def _mean(exponent: float, low: float, high: float) -> float:
    ratio = low / high
    return float(exponent / (exponent - 1) * low * (1 - ratio ** (exponent - 1)) / (1 - ratio**exponent))


def noise(seed: int, purpose: str, rows: NDArray[np.integer], width: int) -> NDArray[np.float32]:
    """Return near-normal noise of mean 0 and variance 1, the sum of a hash's four parts: float32 [len(rows), width]."""
    out = np.empty((len(rows), width), dtype=np.float32)
    scale = np.float32((4 * (65536.0**2 - 1) / 12) ** -0.5)

    def fill(places: NDArray[np.int64]) -> None:
        ids = np.asarray(rows[places[0] : places[-1] + 1], dtype=np.int64)[:, None] * width + np.arange(width)
        parts = hash_ids(seed, purpose, ids).view(np.uint16)
        total = parts.reshape(-1, width, 4).sum(axis=2, dtype=np.int32)
        out[places[0] : places[-1] + 1] = (total - 131070).astype(np.float32) * scale

    by_chunks(fill, 0, len(rows), max(1, _BLOCK // max(width, 1)))
    return out
