"""Generator of lookalikes: synthetic graphs with the published counts of graphs that are not available.

Parameters are published counts and fixed community statistics, never a result that the graph should show. Pairs of
nodes are drawn by degree weights (Chung and Lu 2002), a share of them inside one community; ids are permuted randomly.
"""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from datasets.csr import csr_from_edges
from datasets.graph import Graph
from datasets.options import options_from, unknown_name
from datasets.randomness import permutation
from datasets.synthetic.content_hash import with_content_hash
from datasets.synthetic.lookalike.attributes import community_labels, label_features, shape_splits
from datasets.synthetic.lookalike.edges import draw_pairs
from datasets.synthetic.lookalike.layout import CommunityLayout, community_layout
from datasets.synthetic.lookalike.shapes import SHAPES, LookalikeShape

LEAST_COMMUNITY = 4  # nodes


@dataclass(frozen=True)
class LookalikeOptions:
    """``scale`` is the share of the nodes (``None``: the data set's default), at the published mean degree.

    ``community`` (mean nodes of a community) and ``inside`` (share of the edges inside one) replace the assumed ones,
    ``None`` leaves them: with them the share of edges in dense tiles is swept, which no published count determines.
    """

    scale: float | None = None
    seed: int = 0
    community: int | None = None
    inside: float | None = None

    def __post_init__(self) -> None:
        if self.scale is not None and not 0 < self.scale <= 1:
            raise ValueError(f"lookalike with scale={self.scale}: allowed is a share of the nodes, above 0 to 1")
        if self.community is not None and self.community < LEAST_COMMUNITY:
            raise ValueError(f"lookalike with community={self.community}: allowed are {LEAST_COMMUNITY} nodes or more")
        if self.inside is not None and not 0 <= self.inside <= 1:
            raise ValueError(f"lookalike with inside={self.inside}: allowed is a share of the edges, 0 to 1")

    def of(self, shape: LookalikeShape) -> LookalikeShape:
        """The shape with the communities that these options ask for."""
        asked = {"community": self.community, "inside": self.inside}
        return replace(shape, **{name: value for name, value in asked.items() if value is not None})


def load(name: str, options: dict[str, Any]) -> Graph:
    """Generate a lookalike by name; raises ValueError for unknown names and options.

    Undirected: pair i gives edges i and i + pairs. Counts and skew are in ``datasets.synthetic.lookalike.shapes``.
    """
    if name not in SHAPES:
        raise ValueError(unknown_name("lookalike", name, SHAPES))
    arguments = options_from(LookalikeOptions, name, options)
    shape = arguments.of(SHAPES[name])
    scale = shape.default_scale if arguments.scale is None else arguments.scale
    layout = community_layout(shape, scale, arguments.seed)
    low, high = draw_pairs(layout, arguments.seed)
    graph = _assemble(name, shape, layout, low, high, arguments.seed)
    notes = _notes(shape, layout, scale)
    if shape != SHAPES[name]:
        notes += (f"communities as asked for: of {shape.community} nodes, {shape.inside:.0%} of the edges inside",)
    return with_content_hash(replace(graph, notes=notes))


def _assemble(
    name: str,
    shape: LookalikeShape,
    layout: CommunityLayout,
    low: NDArray[np.int64],
    high: NDArray[np.int64],
    seed: int,
) -> Graph:
    position = permutation(seed, "lookalike id", layout.nodes)
    ids = np.empty(layout.nodes, dtype=np.int64)
    ids[position] = np.arange(layout.nodes)
    sources, destinations = np.concatenate((ids[low], ids[high])), np.concatenate((ids[high], ids[low]))
    classes = community_labels(shape, layout, seed)
    return Graph(
        name=name,
        csr=csr_from_edges(sources, destinations, (layout.nodes, layout.nodes)),
        features=label_features(shape, classes, seed)[position],
        labels=classes[position],
        split=shape_splits(shape, layout, seed)[position],
        classes=shape.classes,
        task=shape.task,
        graph_ids=layout.graph[position].astype(np.int32) if shape.graphs > 1 else None,
        inductive=shape.graphs > 1,
        synthetic=True,
        published=shape.published,
    )


def _notes(shape: LookalikeShape, layout: CommunityLayout, scale: float) -> tuple[str, ...]:
    notes = ["synthetic: published counts, assumed degree skew and communities, ids permuted randomly", shape.counting]
    if scale < 1:
        size = layout.nodes * shape.features * 4 / 2**20
        notes += [
            f"scale {scale:g} keeps the mean degree: density and tile density are about {1 / scale:.3g} times too high",
            f"scale {scale:g} shrinks the features to {size:.3g} MiB: they may fit in caches that the full ones exceed",
        ]
    if layout.inside < shape.inside - 0.005:
        notes.append(
            f"communities are full at this scale: {layout.inside:.0%} of the edges inside, not {shape.inside:.0%}"
        )
    return tuple(notes)
