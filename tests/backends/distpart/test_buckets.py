"""Buckets of edges: the pieces of a relation."""

import numpy as np
import pytest

from backends.distpart.dispatch.buckets import EdgeBuckets, pieces_of, write_bucket
from backends.distpart.dispatch.numbering import Numbering
from backends.kernels.extension import extension
from tests.backends.distpart.graphs import stored_graph

pytestmark = pytest.mark.skipif(extension is None, reason="the kernels are not built")
PARTS = 4


def test_pieces_of_a_relation_are_found_without_a_walk_over_all(tmp_path):
    graph = stored_graph(2, nodes=50, edges=300)
    parts = np.random.default_rng(0).integers(0, PARTS, graph.total_nodes).astype(np.int32)
    numbering, pieces = Numbering.of(graph, parts, PARTS), pieces_of(graph, 7)
    for piece in pieces:
        write_bucket(graph, numbering, tmp_path, piece)
    relations = len(graph.schema.relations)
    buckets = EdgeBuckets(tmp_path, pieces, PARTS, relations)
    buckets.pieces = []
    for part in range(PARTS):
        filled = [number for number in range(len(pieces)) if buckets.counts[number, part]]
        assert [*buckets.pieces_with(part)] == filled
        for kind in range(relations):
            expected = [number for number in filled if pieces[number].kind == kind]
            assert [*buckets.pieces_with(part, kind)] == expected
            assert (len(expected) > 0) == (kind < 3), "the last relation has no edges"
