"""SlashBurn against a definition with sets, and on graphs whose order is known."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from datasets.csr import Csr, csr_from_edges
from datasets.order import permutation_of


def components(nodes: set[int], neighbours: dict[int, set[int]]) -> list[list[int]]:
    """Connected components in the order of their smallest node."""
    parts, left = [], set(nodes)
    for start in sorted(nodes):
        if start in left:
            reached, frontier = {start}, [start]
            while frontier:
                new = neighbours[frontier.pop()] & left - reached
                reached |= new
                frontier += new
            left -= reached
            parts.append(sorted(reached))
    return parts


def definition(csr: Csr, share: float) -> list[int]:
    neighbours: dict[int, set[int]] = {node: set() for node in range(csr.shape[0])}
    for source, destination in zip(csr.indices.tolist(), csr.destinations.tolist(), strict=True):
        if source != destination:
            neighbours[source].add(destination)
            neighbours[destination].add(source)
    left, count = set(neighbours), max(1, int(share * len(neighbours)))
    front: list[int] = []
    back: list[int] = []

    def by_degree(nodes: set[int]) -> list[int]:
        return sorted(nodes, key=lambda node: (-len(neighbours[node] & nodes), node))

    while len(left) > count:
        hubs = by_degree(left)[:count]
        front, left = front + hubs, left - set(hubs)
        parts = sorted(components(left, neighbours), key=len, reverse=True)  # stable: ties by the smallest node
        left = set(parts[0])
        back = [node for part in parts[1:] for node in part] + back
    return front + by_degree(left) + back


@given(st.integers(0, 30), st.integers(0, 60), st.integers(0, 99), st.sampled_from([0.005, 0.1, 0.5, 1.0]))
def test_the_order_is_that_of_the_definition(nodes: int, edges: int, seed: int, share: float) -> None:
    sources, destinations = np.random.default_rng(seed).integers(max(nodes, 1), size=(2, edges if nodes else 0))
    csr = csr_from_edges(sources, destinations, (nodes, nodes))
    assert permutation_of("slashburn", csr, {"hubs": share}).tolist() == definition(csr, share)


def test_a_star_has_its_hub_first_and_a_long_path_ends() -> None:
    leaves = np.delete(np.arange(100), 37)
    star = csr_from_edges(leaves, np.full(99, 37), (100, 100))
    assert permutation_of("slashburn", star)[0] == 37
    path = csr_from_edges(np.arange(2999), np.arange(1, 3000), (3000, 3000))
    assert len(permutation_of("slashburn", path)) == 3000  # a recursion of one level per round would be too deep


@pytest.mark.parametrize("share", [0.0, -1.0, 1.5, float("nan")])
def test_a_share_outside_its_range_is_refused(share: object) -> None:
    with pytest.raises(ValueError, match="a share of the nodes above 0"):
        permutation_of("slashburn", csr_from_edges(np.array([0]), np.array([1]), (2, 2)), {"hubs": share})
