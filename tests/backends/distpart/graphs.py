"""Typed graphs with parallel edges, self loops, a hub, isolated nodes, empty types and attributes."""

import numpy as np

from backends.distpart.typed_graph import ArrayEdges, TypedGraph
from datasets.schema import HOMOGENEOUS, Relation, Schema

TYPED = Schema(
    ("author", "paper", "venue"),
    (
        Relation("author", "writes", "paper"),
        Relation("paper", "cites", "paper"),
        Relation("paper", "rev_writes", "author"),
        Relation("venue", "never", "venue"),
    ),
)


def stored_graph(seed=0, schema=TYPED, nodes=30, edges=60):
    """A graph by a schema: sizes differ by type, the last type has no node unless it is the only one."""
    draw = np.random.default_rng(seed)
    counts = {kind: nodes + 7 * number for number, kind in enumerate(schema.node_types)}
    if len(schema.node_types) > 1:
        counts[schema.node_types[-1]] = 0
    lists, edge_data = {}, {}
    for relation in schema.relations:
        ends = [counts[relation.source], counts[relation.destination]]
        count = edges if min(ends) else 0
        pairs = [draw.integers(0, max(1, end - 1), count) for end in ends]
        if count:
            pairs[1][: count // 3] = 0  # a hub
            pairs[0][-1], pairs[1][-1] = pairs[0][0], pairs[1][0]  # a parallel edge
        lists[relation] = ArrayEdges(*pairs)
        edge_data[relation] = {"weight": draw.random(count).astype(np.float32)}
    node_data = {
        kind: {"feat": draw.normal(size=(count, 3)).astype(np.float32), "label": draw.integers(0, 4, count)}
        for kind, count in counts.items()
    }
    return TypedGraph("toy", schema, counts, lists, node_data, edge_data)


def homogeneous(seed=0, nodes=40, edges=150):
    return stored_graph(seed, HOMOGENEOUS, nodes, edges)
