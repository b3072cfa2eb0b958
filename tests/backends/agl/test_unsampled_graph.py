"""Batches of whole neighbourhoods, numbered or not, against the float64 definition."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from backends.agl.sampled_graph import UnsampledGraph
from backends.model import TrainingSpec, initial_state
from backends.reference.definition import loss_and_gradients
from datasets.adjacency import adjacency_of
from datasets.csr import csr_from_edges
from datasets.graph import Graph
from tests.backends.agl.test_backend import MODELS, assert_close, few_of, trainer_of
from tests.contract.test_parity import PlainClock
from tests.graphs import awkward_graph

SHAPES = {"hub": (40, 160), "dense": (40, 900), "sparse": (300, 200)}


def ring(nodes, reach):
    """Each node has edges from the ``reach`` nodes before it."""
    destinations = np.repeat(np.arange(nodes), reach)
    sources = (destinations - np.tile(np.arange(1, reach + 1), nodes)) % nodes
    draw = np.random.default_rng(0)
    features, labels = draw.normal(size=(nodes, 6)).astype(np.float32), draw.integers(0, 4, nodes)
    csr = csr_from_edges(sources, destinations, (nodes, nodes))
    return Graph("ring", csr, features, labels, np.zeros(nodes, dtype=np.int8), 4, "multiclass")


@settings(deadline=None, max_examples=60)
@given(MODELS, st.integers(1, 3), st.integers(0, 99), st.sampled_from(list(SHAPES)), st.sampled_from([1, 3, 20]))
def test_a_batch_equals_the_definition(model, layers, seed, shape, count):
    nodes, edges = SHAPES[shape]
    graph = awkward_graph(seed, nodes, edges, weighted=model == "gcn" and seed % 2 == 1)
    training = TrainingSpec(threads=1, dropout=0.0)
    engine = trainer_of(graph, model, [], training=training, layers=layers)
    targets = few_of(graph, seed, count)
    if (graph.labels[targets] < 0).all():
        return
    expected = loss_and_gradients(graph, engine.spec, initial_state(engine.spec, 0), targets)
    assert_close(engine.loss_and_gradients(targets), expected)


@pytest.mark.parametrize("model", ["gcn", "gat"])
def test_a_search_numbers_only_the_nodes_that_are_read(model):
    """On a long ring three layers read the 12 nodes before the targets, of 500; gcn's first only sums up features."""
    adjacency = adjacency_of(ring(500, 4), model)
    sums = model == "gcn"
    matrices, nodes = UnsampledGraph(adjacency, 3, sums).layers(np.arange(100, 103), "tight")
    assert [matrix.csr.shape[0] for matrix in matrices] == [11, 7, 3]
    assert matrices[1].csr.shape == (7, 11) and matrices[2].own_columns is None
    if sums:
        assert nodes is None and matrices[0].csr.shape[1] == 500
        np.testing.assert_array_equal(np.sort(matrices[0].own_columns), np.arange(92, 103))
    else:
        np.testing.assert_array_equal(np.sort(nodes), np.arange(88, 103))


@pytest.mark.parametrize("model", ["gcn", "gat"])
def test_a_hop_that_reaches_most_nodes_reads_the_graph_in_place(model):
    """On a ring of 20 with 18 edges each, one hop reaches nearly all."""
    adjacency = adjacency_of(ring(20, 18), model)
    matrices, nodes = UnsampledGraph(adjacency, 3, model == "gcn").layers(np.array([4, 9]), "tight")
    assert nodes is None
    assert matrices[0].csr is matrices[1].csr is adjacency.csr
    np.testing.assert_array_equal(matrices[2].own_columns, [4, 9])


@pytest.mark.parametrize("form", ["paper", "full"])
def test_other_forms_keep_rows_that_no_layer_reads(form):
    adjacency = adjacency_of(ring(20, 18), "sage")
    matrices, nodes = UnsampledGraph(adjacency, 2, True).layers(np.array([4]), form)
    assert nodes is not None and len(nodes) == 20
    assert matrices[0].csr.shape[0] == 20


def test_dropout_is_applied_to_features_copied_for_the_batch():
    graph = ring(500, 4)
    engine = trainer_of(graph, "sage", [], training=TrainingSpec(threads=1, dropout=0.5), layers=2)
    assert engine.mini_batch(np.arange(100, 103)).features.shape == (11, 6)


@pytest.mark.parametrize(("threads", "overlaps"), [(2, False), (3, True)])
def test_the_pipeline_needs_a_thread_of_its_own(threads, overlaps):
    engine = trainer_of(ring(50, 4), "sage", [], training=TrainingSpec(threads=threads), layers=2)
    clock = PlainClock()
    engine.epoch(0, clock)
    assert engine.facts()["overlaps"] == overlaps
    assert ("load" in clock.seconds) == overlaps and ("vectorize" in clock.seconds) != overlaps


def test_a_batch_that_reaches_all_nodes_from_few_sources_keeps_their_order():
    from backends.agl.sampled_graph import UnsampledGraph
    from datasets.adjacency import Adjacency
    from datasets.csr import csr_from_edges

    ends = np.arange(10)
    csr = csr_from_edges(2 * ends, 2 * ends + 1, (20, 20))  # targets are odd: every node is reached, half are sources
    lower, upper = UnsampledGraph(Adjacency(csr), 2, sums_features=False).layers(2 * ends + 1, "tight")[0]
    assert lower.csr.shape[0] == upper.csr.shape[1] == 20
    assert lower.csr.in_degrees.tolist() == [1] * 10 + [0] * 10  # rows stand in the order in which nodes were reached
