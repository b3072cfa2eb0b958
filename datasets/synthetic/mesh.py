"""Generator of a road-like mesh: a square grid in rows, some streets missing, some diagonals added."""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from datasets.edge_list import undirected, unique_pairs
from datasets.graph import Graph
from datasets.options import options_from
from datasets.randomness import uniform
from datasets.synthetic.content_hash import with_content_hash

_BLOCK = 1 << 18
Pairs = tuple[NDArray[np.int64], NDArray[np.int64]]


@dataclass(frozen=True)
class MeshOptions:
    """``nodes`` is rounded down to a square; ``missing`` is a share of the streets, ``diagonals`` of the squares."""

    nodes: int = 1_000_000
    missing: float = 0.15
    diagonals: float = 0.05
    seed: int = 0

    def __post_init__(self) -> None:
        if self.nodes < 1:
            raise ValueError(f"mesh with nodes={self.nodes}: allowed are positive numbers, 1 and more")
        for name in ("missing", "diagonals"):
            if not 0 <= getattr(self, name) <= 1:
                raise ValueError(f"mesh with {name}={getattr(self, name)}: allowed are shares from 0 to 1")


def load(name: str, options: dict[str, Any]) -> Graph:
    """Generate the mesh, both directions of each street, ids row by row; structure only."""
    mesh = options_from(MeshOptions, name, options)
    side = math.isqrt(mesh.nodes)
    parts = list(_streets(side, mesh))
    first, second = (np.concatenate([part[end] for part in parts]) for end in (0, 1))
    csr, _ = undirected(*unique_pairs(first, second, side * side), side * side)
    notes = ("synthetic: a square grid, streets missing and diagonals added at random; ids row by row",)
    return with_content_hash(Graph(name=name, csr=csr, synthetic=True, notes=notes))


def _streets(side: int, options: MeshOptions) -> Iterator[Pairs]:
    """Yield pairs of neighbouring nodes, smaller id first; each choice is a hash of the first node."""
    present = 1 - options.missing
    for start in range(0, side * side, _BLOCK):
        node = np.arange(start, min(start + _BLOCK, side * side), dtype=np.int64)
        right, down = node % side < side - 1, node < side * (side - 1)
        for purpose, possible, step, share in (
            ("right", right, 1, present),
            ("down", down, side, present),
            ("diagonal", right & down, side + 1, options.diagonals),
        ):
            starts = node[possible & (uniform(options.seed, f"mesh {purpose}", node) <= share)]
            yield starts, starts + step
