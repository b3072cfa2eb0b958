"""Edges of a lookalike: an exact number of distinct pairs, drawn by degree weights (Chung and Lu 2002)."""

import numpy as np
from numpy.typing import NDArray

from datasets.randomness import hash_ids, uniform
from datasets.synthetic.lookalike.layout import CommunityLayout

_WEIGHTED_ROUNDS = 12


def draw_pairs(layout: CommunityLayout, seed: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Draw ``layout.pairs`` distinct pairs of positions (low, high), in random order."""
    count = round(layout.pairs * layout.inside)
    none = np.zeros(0, np.int64)
    inside = _draw(layout, count, layout.community_bounds, layout.community, none, "inside", seed)
    keys = _draw(layout, layout.pairs, layout.graph_bounds, layout.graph, inside, "outside", seed)
    shuffled = keys[np.argsort(hash_ids(seed, "lookalike pair order", keys), kind="stable")]
    low, high = np.divmod(shuffled, layout.nodes)
    return low, high


def _draw(
    layout: CommunityLayout,
    count: int,
    bounds: NDArray[np.int64],
    segments: NDArray[np.int64],
    keys: NDArray[np.int64],
    purpose: str,
    seed: int,
) -> NDArray[np.int64]:
    """Add pairs to the sorted ``keys`` until there are ``count``; both ends of a pair lie in one segment."""
    drawn, turn = 0, 0
    while len(keys) < count:
        missing = count - len(keys)
        ids = np.arange(drawn, drawn + missing + missing // 4 + 16)
        drawn, turn = drawn + len(ids), turn + 1
        # Hubs fill up first: the last missing pairs are drawn without weights.
        cumulative = layout.cumulative if turn <= _WEIGHTED_ROUNDS else np.arange(layout.nodes + 1, dtype=np.float64)
        start, end = np.zeros(1, np.int64), np.array([layout.nodes])
        first = _pick(cumulative, start, end, uniform(seed, f"lookalike {purpose} a", ids))
        segment = segments[first]
        second = _pick(cumulative, bounds[segment], bounds[segment + 1], uniform(seed, f"lookalike {purpose} b", ids))
        low, high = np.minimum(first, second), np.maximum(first, second)
        fresh = _distinct((low * layout.nodes + high)[low < high])
        fresh = fresh[~np.isin(fresh, keys, assume_unique=True)]
        if len(fresh) > missing:
            fresh = fresh[np.argsort(hash_ids(seed, f"lookalike {purpose} kept", fresh), kind="stable")[:missing]]
        keys = np.sort(np.concatenate((keys, fresh)))
    return keys


def _pick(
    cumulative: NDArray[np.float64], first: NDArray[np.int64], last: NDArray[np.int64], u: NDArray[np.float64]
) -> NDArray[np.int64]:
    """Pick a position in ``[first, last)`` with probability proportional to its weight."""
    target = cumulative[first] + (1 - u) * (cumulative[last] - cumulative[first])
    return np.clip(np.searchsorted(cumulative, target, side="right") - 1, first, last - 1)


def _distinct(keys: NDArray[np.int64]) -> NDArray[np.int64]:
    keys = np.sort(keys)
    distinct: NDArray[np.int64] = keys[np.append(True, keys[1:] != keys[:-1])[: len(keys)]]
    return distinct
