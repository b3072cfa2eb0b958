"""Samplers of in-edges: each gives every in-edge of a node a key, and the edges of the smallest keys are kept.

Sampling without replacement by k smallest keys makes samples nest, and equal wherever they are drawn (Efraimidis and
Spirakis 2006 for the weighted form). A new one is registered by name: ``SAMPLERS["mine"] = EdgeSampler(keys)``.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from datasets.randomness import logarithm, unit_interval

Hashes = NDArray[np.uint64]
Weights = NDArray[np.floating[Any]]


@dataclass(frozen=True)
class EdgeSampler:
    """``keys(hashes [n], weight [n])`` returns the key of each edge; the smallest are kept, ties by edge id.

    ``needs_weight``: weights are required; ``positive``: they must be finite and above 0. ``draws``: it also draws with
    replacement. ``everything``: it takes no fanout.
    """

    keys: Callable[[Hashes, Weights], NDArray[Any]]
    needs_weight: bool = False
    positive: bool = False
    draws: bool = False
    everything: bool = False


def _uniform(hashes: Hashes, weight: Weights) -> NDArray[Any]:
    return hashes


def _weighted(hashes: Hashes, weight: Weights) -> NDArray[Any]:
    return -logarithm(unit_interval(hashes)) / weight.astype(np.float64)


def _topk(hashes: Hashes, weight: Weights) -> NDArray[Any]:
    return -weight.astype(np.float64)


def _full(hashes: Hashes, weight: Weights) -> NDArray[Any]:
    return np.zeros(len(hashes))


SAMPLERS: dict[str, EdgeSampler] = {
    "uniform": EdgeSampler(_uniform, draws=True),
    "weighted": EdgeSampler(_weighted, needs_weight=True, positive=True, draws=True),
    "topk": EdgeSampler(_topk, needs_weight=True),
    "full": EdgeSampler(_full, everything=True),
}


def sampler_of(name: str, weight: Weights | None, edges: int, replacement: bool) -> EdgeSampler:
    """Return a registered sampler; refuses an unknown one, missing weights, and ``replacement`` if it has none."""
    if name not in SAMPLERS:
        raise ValueError(f"sampler={name!r} is unknown: allowed are {', '.join(SAMPLERS)}")
    sampler = SAMPLERS[name]
    if sampler.needs_weight and weight is None:
        raise ValueError(f"sampler={name!r} needs weight, one number for each of the {edges} edges")
    if weight is not None and weight.shape != (edges,):
        raise ValueError(f"weight has shape {weight.shape}: {edges} edges need ({edges},)")
    if replacement and not sampler.draws:
        able = ", ".join(key for key, value in SAMPLERS.items() if value.draws)
        raise ValueError(f"sampler={name!r} cannot draw with replacement: allowed are {able}")
    return sampler


def check_weights(name: str, sampler: EdgeSampler, weight: Weights, ids: NDArray[np.integer]) -> None:
    """Refuse weights that cannot be ordered, or drawn by; the message names the edge with the smallest id."""
    bad = np.isnan(weight)
    if sampler.positive:
        bad |= ~((weight > 0) & (weight < np.inf))
    if bad.any():
        worst = np.flatnonzero(bad)[np.argmin(ids[bad])]
        allowed = "finite and above 0" if sampler.positive else "numbers"
        raise ValueError(f"edge {ids[worst]} has weight {weight[worst]}: sampler={name!r} needs weights {allowed}")
