"""Dense floor: below the same products however they are timed, never more work than an implementation must do."""

from dataclasses import replace
from functools import partial

import numpy as np
import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st

from backends.model import ModelSpec
from harness.measure import best, dense, shared_values
from harness.measure.best import stable_best
from harness.measure.dense import Product, dense_floor, least_seconds, products
from harness.measure.shared_values import PROCESSES
from tests.graphs import awkward_graph


@pytest.fixture(autouse=True)
def no_values():
    shared_values.clear()
    yield
    shared_values.clear()


SHAPES = st.tuples(st.sampled_from([1, 3, 700, 5000, 9000]), st.sampled_from([1, 3, 50]), st.sampled_from([1, 7, 64]))


@settings(max_examples=8)
@example((3, 1, 1), True)
@example((3, 10_000, 2), False)
@given(SHAPES, st.booleans())
def test_the_floor_is_never_above_the_same_products_timed_here(shape, inner):
    rows, depth, columns = shape
    x, weight, gradient = torch.rand(rows, depth), torch.rand(depth, columns), torch.rand(rows, columns)
    passes = [lambda: x @ weight, lambda: x.T @ gradient, *[lambda: gradient @ weight.T] * inner]
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(best, "LONGEST", 0.1)
        floor = least_seconds(Product(rows, depth, columns, needs_input_gradient=inner), 2)
        assert 0 < floor <= 1.5 * sum(stable_best([call]) for call in passes)


@pytest.mark.parametrize("model", ["gcn", "sage", "gat"])
def test_the_floor_of_zeros_is_below_that_of_dense_features(model):
    set_features = replace(awkward_graph(1), features=np.ones((awkward_graph(1).nodes, 9), dtype=np.float32))
    empty = replace(set_features, features=np.zeros_like(set_features.features))
    spec = ModelSpec(model, 2, 9, 5, set_features.classes, heads=2)
    with_zeros, without = (products(spec, graph, np.arange(graph.nodes)) for graph in (empty, set_features))
    assert with_zeros[0].flops == 0 < without[0].flops and with_zeros[1:] == without[1:]


def test_few_numbers_and_edges_are_read_at_once(monkeypatch):
    graph = awkward_graph(1)
    spec, targets = ModelSpec("gcn", 3, graph.width, 5, graph.classes), graph.nodes_of("train")[:3]
    at_once = products(spec, graph, targets)
    monkeypatch.setattr(dense, "EDGES", 7)
    assert products(spec, graph, targets) == at_once
    read, count = [], dense.share_set
    monkeypatch.setattr(dense, "COUNTED", 12)
    monkeypatch.setattr(dense, "share_set", lambda features: (read.append(features.size), count(features))[1])
    products(spec, graph, targets)
    assert read == [2 * graph.width]


@pytest.mark.parametrize("multilabel", [False, True])
@pytest.mark.parametrize("model", ["gcn", "sage", "gat"])
def test_every_model_has_a_dense_floor(model, multilabel, monkeypatch):
    graph = awkward_graph(1, multilabel=multilabel)
    spec = ModelSpec(model, 3, graph.width, 5, graph.classes, heads=2, output_heads=2, head="linear")
    monkeypatch.setattr(dense, "least_seconds", lambda *arguments: 0.25)
    floor = dense_floor(spec, graph, graph.nodes_of("train"), 1)
    assert floor.seconds == 4 * 0.25 and floor.flops > 0


@pytest.mark.parametrize("targets", [[], [0], [0, 1, 2]])
@pytest.mark.parametrize("model", ["gcn", "sage", "gat"])
def test_only_rows_that_a_target_depends_on_are_counted(model, targets):
    graph = awkward_graph(1)
    spec = ModelSpec(model, 3, graph.width, 5, graph.classes)
    rows = [max(product.rows, product.own_rows) for product in products(spec, graph, np.array(targets, dtype=np.int64))]
    assert rows[-1] == len(targets) and rows == sorted(rows, reverse=True) and rows[0] <= graph.nodes
    whole = products(spec, graph, np.arange(graph.nodes))
    assert {max(product.rows, product.own_rows) for product in whole} == {graph.nodes}
    sampled = products(replace(spec, fanouts=(2, 2, 2)), graph, np.array(targets, dtype=np.int64))
    assert {max(product.rows, product.own_rows) for product in sampled} == {len(targets)}


def test_a_first_layer_has_no_gradient_of_its_input():
    graph = awkward_graph(1)
    layers = products(ModelSpec("gcn", 2, graph.width, 5, graph.classes), graph, np.arange(graph.nodes))
    assert [product.needs_input_gradient for product in layers] == [False, True]


def test_without_rows_or_columns_there_is_nothing_to_do():
    assert least_seconds(Product(0, 4, 4), 1) == 0
    assert least_seconds(Product(4, 4, 0), 1) == 0


def test_a_few_processes_measure_a_floor_and_the_least_counts(monkeypatch):
    graph = awkward_graph(1)
    floor = partial(dense_floor, ModelSpec("gcn", 1, graph.width, 5, graph.classes), graph, np.arange(3), 1)
    measured = []
    for seconds in [3.0, 1.0, *[2.0] * PROCESSES]:
        monkeypatch.setattr(dense, "least_seconds", lambda *arguments, s=seconds: measured.append(s) or s)
        values = shared_values.snapshot()
        shared_values.clear()  # as in the next cell's process
        shared_values.adopt(values)
        assert floor().seconds == floor().seconds == min(3.0, *measured)
    assert len(measured) == PROCESSES
