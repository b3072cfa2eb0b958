"""Edges of a lookalike: an exact number of distinct pairs, drawn by degree weights (Chung and Lu 2002)."""

from functools import partial

import numpy as np
from numpy.typing import NDArray

from datasets.randomness import hash_ids, uniform
from datasets.synthetic.chunks import by_chunks
from datasets.synthetic.lookalike.layout import CommunityLayout

_WEIGHTED_ROUNDS = 12


def draw_pairs(layout: CommunityLayout, seed: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Draw ``layout.pairs`` distinct pairs of positions (low, high), in random order."""
    count = round(layout.pairs * layout.inside)
    none = np.zeros(0, np.int64)
    inside = _draw(layout, count, layout.community_bounds, layout.community, none, "inside", seed)
    keys = _draw(layout, layout.pairs, layout.graph_bounds, layout.graph, inside, "outside", seed)
    low, high = np.divmod(_by_hash(keys, "lookalike pair order", seed), layout.nodes)
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
        first, drawn, turn = drawn, drawn + missing + missing // 4 + 16, turn + 1
        # Hubs fill up first: the last missing pairs are drawn without weights.
        cumulative = layout.cumulative if turn <= _WEIGHTED_ROUNDS else np.arange(layout.nodes + 1, dtype=np.float64)
        draw = partial(_pairs, cumulative, bounds, segments, purpose, seed)
        fresh = _distinct(np.concatenate(by_chunks(draw, first, drawn)))
        fresh = fresh[~_in_sorted(fresh, keys)]
        if len(fresh) > missing:
            fresh = _by_hash(fresh, f"lookalike {purpose} kept", seed)[:missing]
        keys = np.sort(np.concatenate((keys, fresh)))
    return keys


def _pairs(
    cumulative: NDArray[np.float64],
    bounds: NDArray[np.int64],
    segments: NDArray[np.int64],
    purpose: str,
    seed: int,
    ids: NDArray[np.int64],
) -> NDArray[np.int64]:
    """Draw a pair for each id: ``low * nodes + high``, without those whose ends are one node."""
    nodes, start = len(segments), np.zeros(1, np.int64)
    first = _pick(cumulative, start, start + nodes, uniform(seed, f"lookalike {purpose} a", ids))
    segment = segments[first]
    second = _pick(cumulative, bounds[segment], bounds[segment + 1], uniform(seed, f"lookalike {purpose} b", ids))
    low, high = np.minimum(first, second), np.maximum(first, second)
    keys: NDArray[np.int64] = (low * nodes + high)[low < high]
    return keys


def _by_hash(keys: NDArray[np.int64], purpose: str, seed: int) -> NDArray[np.int64]:
    """Distinct numbers in the order of their hashes, which differ, so that any sort gives the same."""
    return keys[np.argsort(hash_ids(seed, purpose, keys))]


def _in_sorted(values: NDArray[np.int64], ascending: NDArray[np.int64]) -> NDArray[np.bool_]:
    if not len(ascending):
        return np.zeros(len(values), dtype=bool)
    places = np.minimum(np.searchsorted(ascending, values), len(ascending) - 1)
    present: NDArray[np.bool_] = ascending[places] == values
    return present


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
