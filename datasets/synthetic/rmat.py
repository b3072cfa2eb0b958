"""Generator of R-MAT graphs (Chakrabarti, Zhan and Faloutsos, SDM 2004) with the quadrants of Graph500."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from datasets.csr import csr_from_edges
from datasets.graph import Graph
from datasets.options import options_from
from datasets.randomness import hash_ids, permutation
from datasets.synthetic.content_hash import with_content_hash

QUADRANTS = (0.57, 0.19, 0.19, 0.05)
_BLOCK = 1 << 18
_LEVELS_PER_WORD = 4
_LARGEST_SCALE = 30


@dataclass(frozen=True)
class RmatOptions:
    """``2 ** scale`` nodes and ``edges`` drawn edges, of which self loops and repeated ones are dropped."""

    scale: int = 20
    edges: int = 10_000_000
    seed: int = 0

    def __post_init__(self) -> None:
        if not 1 <= self.scale <= _LARGEST_SCALE or self.edges < 0:
            raise ValueError(
                f"rmat with scale={self.scale}, edges={self.edges}: allowed are scales from 1 to {_LARGEST_SCALE} and "
                "no negative number of edges"
            )


def load(name: str, options: dict[str, Any]) -> Graph:
    """Generate the directed graph, ids permuted randomly; structure only."""
    rmat = options_from(RmatOptions, name, options)
    nodes = 1 << rmat.scale
    position = permutation(rmat.seed, "rmat id", nodes)
    keys = np.empty(rmat.edges, dtype=np.int64)
    loops = 0
    for start in range(0, rmat.edges, _BLOCK):
        draw = np.arange(start, min(start + _BLOCK, rmat.edges), dtype=np.int64)
        source, destination = _ends(rmat, draw)
        loops += int((source == destination).sum())
        keys[draw] = position[destination] * nodes + position[source]
    keys = np.unique(keys)
    keys = keys[keys // nodes != keys % nodes]
    notes = (
        f"synthetic: {rmat.edges:,} edges drawn, self loops and repeated edges dropped; ids permuted randomly",
        "quadrants " + ", ".join(map(str, QUADRANTS)) + " (Graph500)",
    )
    csr = csr_from_edges(keys % nodes, keys // nodes, (nodes, nodes))
    return with_content_hash(Graph(name=name, csr=csr, synthetic=True, self_loops_dropped=loops, notes=notes))


def _ends(options: RmatOptions, draw: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Draw a quadrant per level and edge from 16 bits of a hash; its two bits extend source and destination."""
    bounds = np.rint(np.cumsum(QUADRANTS[:-1]) * 65536).astype(np.uint16)
    source, destination = np.zeros(len(draw), dtype=np.int64), np.zeros(len(draw), dtype=np.int64)
    for level in range(options.scale):
        word, part = divmod(level, _LEVELS_PER_WORD)
        if part == 0:
            digits = hash_ids(options.seed, f"rmat/{word}", draw).view(np.uint16).reshape(-1, _LEVELS_PER_WORD)
        quadrant = np.searchsorted(bounds, digits[:, part], side="right")
        source, destination = 2 * source + (quadrant >> 1), 2 * destination + (quadrant & 1)
    return source, destination
