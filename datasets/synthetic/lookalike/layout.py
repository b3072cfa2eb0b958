"""Communities, graphs and degree weights of a lookalike's nodes, before any edge is drawn."""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from datasets.randomness import uniform
from datasets.synthetic.distributions import power_law
from datasets.synthetic.lookalike.shapes import LookalikeShape

# Largest share of a community's possible pairs that is drawn by weight: repeated draws make more too slow.
_FULLEST = 0.5


@dataclass(frozen=True)
class CommunityLayout:
    """Positions of the nodes, graph by graph and community by community, and the weights of their degrees.

    ``community_bounds`` [communities + 1] and ``graph_bounds`` [graphs + 1] are positions; ``community`` and ``graph``
    [nodes] number the segment of each position; ``cumulative`` [nodes + 1] sums the degree weights; ``inside`` is the
    share of the ``pairs`` that communities have room for.
    """

    nodes: int
    pairs: int
    inside: float
    community_bounds: NDArray[np.int64]
    graph_bounds: NDArray[np.int64]
    community: NDArray[np.int64]
    graph: NDArray[np.int64]
    cumulative: NDArray[np.float64]


def community_layout(shape: LookalikeShape, scale: float, seed: int) -> CommunityLayout:
    """Lay out the nodes of a lookalike; raises ValueError if the scale leaves no room for its mean degree."""
    fewest = 2 if shape.task == "multilabel" else shape.classes
    smallest = _smallest_scale(shape, fewest)
    if scale < smallest:
        raise ValueError(
            f"scale={scale:g} leaves {round(shape.nodes * scale)} nodes for the published mean degree: too dense to be "
            f"the same graph; allowed are {smallest:g} to 1"
        )
    nodes, pairs = round(shape.nodes * scale), round(shape.pairs * scale)
    communities = shape.graphs * max(fewest, round(nodes / shape.community / shape.graphs))
    graph_bounds = _bounds(nodes, shape.graphs)
    community_bounds = _bounds(nodes, communities)
    weights = power_law(uniform(seed, "lookalike weight", np.arange(nodes)), shape.tail, 1.0, shape.hub)
    return CommunityLayout(
        nodes=nodes,
        pairs=pairs,
        inside=min(shape.inside, _FULLEST * _possible_pairs(community_bounds) / pairs),
        community_bounds=community_bounds,
        graph_bounds=graph_bounds,
        community=np.repeat(np.arange(communities), np.diff(community_bounds)),
        graph=np.repeat(np.arange(shape.graphs), np.diff(graph_bounds)),
        cumulative=np.concatenate(([0.0], np.cumsum(weights))),
    )


def _smallest_scale(shape: LookalikeShape, fewest: int) -> float:
    """Allow four nodes per community and half of all possible edges, with a tenth to spare, in steps of 10^-4."""
    by_nodes = 4 * fewest * shape.graphs / shape.nodes
    by_edges = 2 * shape.graphs * shape.pairs / (_FULLEST * shape.nodes**2)
    return math.ceil(1.1e4 * max(by_nodes, by_edges)) / 1e4


def _bounds(nodes: int, segments: int) -> NDArray[np.int64]:
    return np.arange(segments + 1) * nodes // segments


def _possible_pairs(bounds: NDArray[np.int64]) -> float:
    sizes = np.diff(bounds).astype(np.float64)
    return float((sizes * (sizes - 1) / 2).sum())
