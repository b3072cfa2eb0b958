"""Synthetic stand-ins for graphs that are too large or not at hand: published counts, skewed degrees, communities.

Parameters are published counts and fixed community statistics, never a result that the graph should show. Pairs of
nodes are drawn by degree weights (Chung and Lu 2002), a share of them inside one community; ids are permuted randomly.
"""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from datasets.csr import csr_from_edges
from datasets.graph import Graph
from datasets.lookalike_nodes import features, labels, splits
from datasets.lookalike_pairs import Layout, layout, pairs
from datasets.lookalike_shapes import SHAPES, Shape
from datasets.randomness import permutation
from datasets.synthetic import options_from, unknown, with_content_hash


@dataclass(frozen=True)
class LookalikeOptions:
    """``scale`` is the share of the nodes that is made (``None``: the data set's default); the mean degree stays."""

    scale: float | None = None
    seed: int = 0

    def __post_init__(self) -> None:
        if self.scale is not None and not 0 < self.scale <= 1:
            raise ValueError(f"lookalike with scale={self.scale}: allowed is a share of the nodes, above 0 to 1")


def load(name: str, options: dict[str, Any]) -> Graph:
    """Generate a lookalike by name; raises ValueError for unknown names and options.

    Undirected: pair i gives edges i and i + pairs. Counts and skew are in ``datasets.lookalike_shapes``.
    """
    if name not in SHAPES:
        raise ValueError(unknown("lookalike", name, SHAPES))
    given = options_from(LookalikeOptions, name, options)
    shape = SHAPES[name]
    scale = shape.default_scale if given.scale is None else given.scale
    plan = layout(shape, scale, given.seed)
    low, high = pairs(plan, given.seed)
    graph = _assemble(name, shape, plan, low, high, given.seed)
    return with_content_hash(replace(graph, notes=_notes(shape, plan, scale)))


def _assemble(
    name: str, shape: Shape, plan: Layout, low: NDArray[np.int64], high: NDArray[np.int64], seed: int
) -> Graph:
    position = permutation(seed, "lookalike id", plan.nodes)
    ids = np.empty(plan.nodes, dtype=np.int64)
    ids[position] = np.arange(plan.nodes)
    sources, destinations = np.concatenate((ids[low], ids[high])), np.concatenate((ids[high], ids[low]))
    classes = labels(shape, plan, seed)
    return Graph(
        name=name,
        csr=csr_from_edges(sources, destinations, (plan.nodes, plan.nodes)),
        features=features(shape, classes, seed)[position],
        labels=classes[position],
        split=splits(shape, plan, seed)[position],
        classes=shape.classes,
        task=shape.task,
        graph_ids=plan.graph[position].astype(np.int32) if shape.graphs > 1 else None,
        inductive=shape.graphs > 1,
        synthetic=True,
        published=shape.published,
    )


def _notes(shape: Shape, plan: Layout, scale: float) -> tuple[str, ...]:
    notes = ["synthetic: published counts, assumed degree skew and communities, ids permuted randomly", shape.counting]
    if scale < 1:
        size = plan.nodes * shape.features * 4 / 2**20
        notes += [
            f"scale {scale:g} keeps the mean degree: density and tile density are about {1 / scale:.3g} times too high",
            f"scale {scale:g} shrinks the features to {size:.3g} MiB: they may fit in caches that the full ones exceed",
        ]
    if plan.inside < shape.inside - 0.005:
        notes.append(
            f"communities are full at this scale: {plan.inside:.0%} of the edges inside, not {shape.inside:.0%}"
        )
    return tuple(notes)
