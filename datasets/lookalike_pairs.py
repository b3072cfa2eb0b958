"""The edges of a lookalike: exactly as many distinct pairs as asked, drawn by degree weights."""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from datasets.lookalike_shapes import Shape
from datasets.randomness import hash_ids, uniform
from datasets.synthetic import power_law

# Distinct pairs that weights alone reach in reasonable time; fuller communities would be near-cliques.
_FULLEST = 0.5
_WEIGHTED_ROUNDS = 12


@dataclass(frozen=True)
class Layout:
    """Nodes in hidden order, graph by graph and community by community.

    ``community_bounds`` [communities + 1] and ``graph_bounds`` [graphs + 1] are positions; ``community`` and ``graph``
    [nodes] say where a node stands; ``cumulative`` [nodes + 1] sums the degree weights; ``inside`` is the share of
    the ``pairs`` that communities have room for.
    """

    nodes: int
    pairs: int
    inside: float
    community_bounds: NDArray[np.int64]
    graph_bounds: NDArray[np.int64]
    community: NDArray[np.int64]
    graph: NDArray[np.int64]
    cumulative: NDArray[np.float64]


def layout(shape: Shape, scale: float, seed: int) -> Layout:
    """Lay out the nodes of a lookalike; raises ValueError if the scale leaves no room for its mean degree."""
    fewest = 2 if shape.task == "multilabel" else shape.classes
    smallest = _smallest_scale(shape, fewest)
    if scale < smallest:
        raise ValueError(
            f"scale={scale:g} leaves {round(shape.nodes * scale)} nodes for the published mean degree: too dense to be "
            f"the same graph; allowed are {smallest:g} to 1"
        )
    nodes, wanted = round(shape.nodes * scale), round(shape.pairs * scale)
    communities = shape.graphs * max(fewest, round(nodes / shape.community / shape.graphs))
    graph_bounds = _bounds(nodes, shape.graphs)
    community_bounds = _bounds(nodes, communities)
    weights = power_law(uniform(seed, "lookalike weight", np.arange(nodes)), shape.tail, 1.0, shape.hub)
    return Layout(
        nodes=nodes,
        pairs=wanted,
        inside=min(shape.inside, _FULLEST * _room(community_bounds) / wanted),
        community_bounds=community_bounds,
        graph_bounds=graph_bounds,
        community=np.repeat(np.arange(communities), np.diff(community_bounds)),
        graph=np.repeat(np.arange(shape.graphs), np.diff(graph_bounds)),
        cumulative=np.concatenate(([0.0], np.cumsum(weights))),
    )


def _smallest_scale(shape: Shape, fewest: int) -> float:
    """Four nodes per community and half of all possible edges, with a tenth to spare, in steps of 10^-4."""
    by_nodes = 4 * fewest * shape.graphs / shape.nodes
    by_edges = 2 * shape.graphs * shape.pairs / (_FULLEST * shape.nodes**2)
    return math.ceil(1.1e4 * max(by_nodes, by_edges)) / 1e4


def pairs(plan: Layout, seed: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Draw ``plan.pairs`` distinct pairs of positions (low, high), in random order."""
    near = round(plan.pairs * plan.inside)
    inside = _draw(plan, near, plan.community_bounds, plan.community, np.zeros(0, np.int64), "inside", seed)
    everything = _draw(plan, plan.pairs, plan.graph_bounds, plan.graph, inside, "outside", seed)
    shuffled = everything[np.argsort(hash_ids(seed, "lookalike pair order", everything), kind="stable")]
    low, high = np.divmod(shuffled, plan.nodes)
    return low, high


def _draw(
    plan: Layout,
    wanted: int,
    bounds: NDArray[np.int64],
    member: NDArray[np.int64],
    held: NDArray[np.int64],
    purpose: str,
    seed: int,
) -> NDArray[np.int64]:
    """Add to the sorted pair keys ``held`` until there are ``wanted``, partners from the segment of the first end."""
    drawn, turn = 0, 0
    while len(held) < wanted:
        missing = wanted - len(held)
        ids = np.arange(drawn, drawn + missing + missing // 4 + 16)
        drawn, turn = drawn + len(ids), turn + 1
        # Hubs fill up first: the last missing pairs are drawn without weights.
        cumulative = plan.cumulative if turn <= _WEIGHTED_ROUNDS else np.arange(plan.nodes + 1, dtype=np.float64)
        first = _pick(
            cumulative, np.zeros(1, np.int64), np.array([plan.nodes]), uniform(seed, f"lookalike {purpose} a", ids)
        )
        segment = member[first]
        second = _pick(cumulative, bounds[segment], bounds[segment + 1], uniform(seed, f"lookalike {purpose} b", ids))
        low, high = np.minimum(first, second), np.maximum(first, second)
        fresh = _distinct((low * plan.nodes + high)[low < high])
        fresh = fresh[~np.isin(fresh, held, assume_unique=True)]
        if len(fresh) > missing:
            fresh = fresh[np.argsort(hash_ids(seed, f"lookalike {purpose} kept", fresh), kind="stable")[:missing]]
        held = np.sort(np.concatenate((held, fresh)))
    return held


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


def _bounds(nodes: int, parts: int) -> NDArray[np.int64]:
    return np.arange(parts + 1) * nodes // parts


def _room(bounds: NDArray[np.int64]) -> float:
    sizes = np.diff(bounds).astype(np.float64)
    return float((sizes * (sizes - 1) / 2).sum())
