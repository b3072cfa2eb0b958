"""Generator of one partition of UUG, in memory proportional to the partition.

Each node has a hidden *position*; a bijection maps positions to ids. Communities are equal ranges of positions and
alternate between two labels; a node takes the label of its community 95 times out of 100. In-degrees follow a bounded
power law. A source is a member of the destination's community, low positions more often, or else any node by a
popularity law, which makes out-hubs. Every choice is a hash of (seed, purpose, id).
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from datasets.graph import MISSING, NO_SPLIT
from datasets.randomness import hash_ids, uniform
from datasets.synthetic.bijection import Bijection
from datasets.synthetic.distributions import noise, power_law

COMMUNITY = 500
INSIDE = 0.7
AGREEMENT = 0.95
TAIL = 1.5
LARGEST = 100_000
INSIDE_SKEW = 1.5
POPULARITY_SKEW = 2.0
SIGNAL = 1.2
SPLIT_SHARES = (0.3, 0.1, 0.2)
_SLOT_BITS = np.uint64(20)


@dataclass(frozen=True)
class UugOptions:
    """Nodes, average in-degree, feature width and seed of the graph, its number of partitions, features of an edge."""

    nodes: int = 10_000
    degree: float = 20.0
    features: int = 656
    seed: int = 0
    partitions: int = 1
    edge_features: int = 0

    def __post_init__(self) -> None:
        if self.nodes < 100:
            raise ValueError(f"uug with nodes={self.nodes}: allowed are 100 and more")
        if not 1 <= self.degree <= self.nodes / 20:
            raise ValueError(f"uug with degree={self.degree}: allowed is 1 to nodes / 20 = {self.nodes / 20:g}")
        if self.features < 1:
            raise ValueError(f"uug with features={self.features}: allowed are 1 and more")
        if self.edge_features < 0:
            raise ValueError(f"uug with edge_features={self.edge_features}: allowed are 0 and more")
        if not 1 <= self.partitions <= self.nodes:
            raise ValueError(f"uug with partitions={self.partitions}: allowed is 1 to nodes = {self.nodes}")

    @property
    def communities(self) -> int:
        """Number of communities: an even number, of about 500 nodes each."""
        return 2 * max(1, round(self.nodes / COMMUNITY / 2))


@dataclass(frozen=True)
class UugPartition:
    """Nodes ``first`` to ``last - 1`` with their in-edges, sorted by (destination, source), in ids of the whole graph.

    ``features`` float32 [nodes, width], ``labels`` int64 [nodes] (-1 missing), ``split`` int8 [nodes],
    ``edge_features`` float32 [edges, width] unless the width is 0.
    """

    first: int
    last: int
    sources: NDArray[np.int64]
    destinations: NDArray[np.int64]
    features: NDArray[np.float32]
    labels: NDArray[np.int64]
    split: NDArray[np.int8]
    edge_features: NDArray[np.float32] | None = None


def uug_partition(options: UugOptions, index: int) -> UugPartition:
    """Generate partition ``index`` alone; it equals its rows of the whole graph for any number of partitions."""
    if not 0 <= index < options.partitions:
        raise ValueError(f"partition {index} does not exist: allowed are 0 to {options.partitions - 1}")
    first, last = (options.nodes * end // options.partitions for end in (index, index + 1))
    nodes = np.arange(first, last, dtype=np.int64)
    sources, destinations = draw_in_edges(options, nodes)
    truth = true_labels(options, nodes)
    split = draw_splits(options, nodes)
    labels = np.where(split == NO_SPLIT, MISSING, truth)
    features, of_edges = draw_features(options, nodes, truth), draw_edge_features(options, sources, destinations)
    return UugPartition(first, last, sources, destinations, features, labels, split, of_edges)


def draw_in_edges(options: UugOptions, nodes: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Draw the in-edges of ascending ``nodes``, without self loops and parallel edges: (sources, destinations)."""
    degrees = draw_in_degrees(options, nodes)
    targets = np.repeat(nodes, degrees)
    slots = np.arange(len(targets)) - np.repeat(np.cumsum(degrees) - degrees, degrees)
    keys = (targets.astype(np.uint64) << _SLOT_BITS) | slots.astype(np.uint64)
    scatter = Bijection(options.seed, "uug position", options.nodes)
    position = np.repeat(scatter.inverse(nodes), degrees)
    first, last = _community_bounds(options, _community(options, position))
    # A hub would fill its community: edges beyond half of its size come from outside.
    inside = (uniform(options.seed, "uug inside", keys) <= INSIDE) & (slots < (last - first) // 2)
    chosen = uniform(options.seed, "uug source", keys)
    drawn = first + _skewed(chosen, INSIDE_SKEW, last - first)
    popular = _skewed(chosen[~inside], POPULARITY_SKEW, options.nodes)
    drawn[~inside] = Bijection(options.seed, "uug popularity", options.nodes)(popular)
    return _simple(scatter(drawn), targets)


def draw_in_degrees(options: UugOptions, nodes: NDArray[np.int64]) -> NDArray[np.int64]:
    """Draw in-degrees from a power law bounded by a tenth of the nodes and by 10^5; rounded without bias."""
    drawn = uniform(options.seed, "uug degree", nodes)
    exact = power_law(drawn, TAIL, options.degree, min(options.nodes / 10, LARGEST))
    return np.floor(exact + uniform(options.seed, "uug rounding", nodes)).astype(np.int64)


def true_labels(options: UugOptions, nodes: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the label of each node, also of those that the data set leaves unlabelled."""
    position = Bijection(options.seed, "uug position", options.nodes).inverse(nodes)
    common = _community(options, position) % 2
    return np.where(uniform(options.seed, "uug label", nodes) <= AGREEMENT, common, 1 - common)


def draw_edge_features(
    options: UugOptions, sources: NDArray[np.int64], destinations: NDArray[np.int64]
) -> NDArray[np.float32] | None:
    """Draw unit noise, shifted by ``+-SIGNAL / 2`` in the first column: up where the labels of both ends agree."""
    if not options.edge_features:
        return None
    keys = (hash_ids(options.seed, "uug edge", sources) ^ destinations.astype(np.uint64)).view(np.int64)
    out = noise(options.seed, "uug edge feature", keys, options.edge_features)
    agree = true_labels(options, sources) == true_labels(options, destinations)
    out[:, 0] += np.where(agree, SIGNAL / 2, -SIGNAL / 2)
    return out


def draw_features(options: UugOptions, nodes: NDArray[np.int64], truth: NDArray[np.int64]) -> NDArray[np.float32]:
    """Draw unit noise, shifted by ``+-SIGNAL / 2`` along one hidden direction, by label."""
    out = noise(options.seed, "uug feature", nodes, options.features)
    signs = np.where(uniform(options.seed, "uug direction", np.arange(options.features)) < 0.5, -1.0, 1.0)
    direction = (signs * (SIGNAL / 2) * options.features**-0.5).astype(np.float32)
    for label, sign in ((0, np.float32(-1)), (1, np.float32(1))):
        out[truth == label] += sign * direction
    return out


def draw_splits(options: UugOptions, nodes: NDArray[np.int64]) -> NDArray[np.int8]:
    """Draw splits by hash: 30 % train, 10 % validation, 20 % test, 40 % none."""
    bounds = np.cumsum(SPLIT_SHARES)
    return np.searchsorted(bounds, uniform(options.seed, "uug split", nodes)).astype(np.int8)


def _community(options: UugOptions, position: NDArray[np.int64]) -> NDArray[np.int64]:
    return position * options.communities // options.nodes


def _community_bounds(options: UugOptions, community: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    first = -(-community * options.nodes // options.communities)
    last = -(-(community + 1) * options.nodes // options.communities)
    return first, last


def _skewed(u: NDArray[np.float64], power: float, count: NDArray[np.int64] | int) -> NDArray[np.int64]:
    return np.minimum((count * u**power).astype(np.int64), np.asarray(count, dtype=np.int64) - 1)


def _simple(sources: NDArray[np.int64], targets: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    order = np.lexsort((sources, targets))
    sources, targets = sources[order], targets[order]
    distinct = sources != targets
    distinct[1:] &= (sources[1:] != sources[:-1]) | (targets[1:] != targets[:-1])
    return sources[distinct], targets[distinct]
