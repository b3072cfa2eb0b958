"""What an epoch's seconds are for: operations by name and shape, backward ones with their forward ones."""

import pytest
import torch
from torch.nn import functional

from backends.ablation import resolve
from backends.batches import BatchPlan
from backends.kernels import spmm
from backends.model import ModelSpec, TrainingSpec, initial_state
from backends.registry import config_class, runtime
from harness.measure.parts import PARTS, EpochShape, parts_of
from tests.contract.test_parity import PlainClock
from tests.contract.test_sparse_input import sparse_graph

NODES, WIDTH = 2000, 300
EDGES = torch.arange(9000) % NODES
SHAPE = EpochShape(NODES, (9000,), WIDTH)


def only(seconds_of):
    """The part that takes most of the seconds."""
    assert set(seconds_of) == set(PARTS)
    return max((name for name in PARTS if name != "rest"), key=lambda name: seconds_of[name])


def both_ways(function, *shapes):
    operands = [torch.rand(shape, requires_grad=True) for shape in shapes]

    def call():
        for _ in range(3):
            function(*operands).sum().backward()

    return call


@pytest.mark.parametrize(
    ("part", "call"),
    [
        ("dropout", both_ways(lambda x: functional.dropout(x, 0.5, True), (NODES, 1500))),
        ("input product", both_ways(lambda x, w: x @ w, (NODES, WIDTH), (WIDTH, 256))),
        ("dense", both_ways(lambda x, w: x @ w, (NODES, 256), (256, 257))),
        ("dense", both_ways(lambda x, b: functional.elu(x + b), (NODES, 400), (400,))),
        ("loss", both_ways(lambda x: functional.cross_entropy(x, torch.zeros(NODES, dtype=torch.int64)), (NODES, 500))),
        ("aggregation", both_ways(lambda x: x.index_select(0, EDGES).relu(), (NODES, 128))),
    ],
)
def test_operations_belong_to_their_part_forward_and_backward(part, call):
    assert only(parts_of(call, SHAPE, 1e9).seconds) == part


def test_our_products_are_told_apart_by_their_operands():
    graph = sparse_graph(nodes=2000, edges=60_000, width=300)[0]
    values = torch.from_numpy(graph.features.values)
    shape = EpochShape(2000, (), 300)
    products = {
        "input product": both_ways(lambda w: spmm(graph.features.csr, w, values), (300, 256)),
        "aggregation": both_ways(lambda x: spmm(graph.csr, x), (2000, 256)),
    }
    for part, call in products.items():
        assert only(parts_of(call, shape, 1e9).seconds) == part


def test_parts_add_up_to_the_epoch():
    call = both_ways(lambda x, w: x @ w, (NODES, WIDTH), (WIDTH, 256))
    for seconds in (1e-6, 1e9):
        seconds_of = parts_of(call, SHAPE, seconds).seconds
        assert sum(seconds_of.values()) == pytest.approx(seconds)
        assert min(seconds_of.values()) >= 0.0
    assert seconds_of["rest"] > 0.9e9


def test_a_call_without_torch_has_no_parts():
    assert parts_of(lambda: None, SHAPE, 1.0) is None


def test_calls_of_torch_are_counted_without_those_that_they_make():
    x = torch.rand(NODES, 8)
    assert parts_of(lambda: (x + 1).sum(), SHAPE, 1.0).calls == 2
    assert parts_of(lambda: functional.cross_entropy(x, torch.zeros(NODES, dtype=torch.int64)), SHAPE, 1.0).calls == 2


@pytest.mark.parametrize("model", ["gcn", "sage", "gat"])
@pytest.mark.parametrize("name", ["agl", "blocksparse", "reference"])
def test_every_part_of_a_training_is_found(name, model):
    graph = sparse_graph()[1 if name == "reference" else 0]
    spec = ModelSpec(model, 2, graph.width, 16, graph.classes)
    engine = runtime(resolve(config_class(name)(), []), "train")
    training = TrainingSpec(threads=1, dropout=0.5)
    engine.prepare(graph, spec, training, initial_state(spec, 0), BatchPlan(graph.nodes_of("train")), PlainClock())
    shape = EpochShape(graph.nodes, (graph.csr.nnz, graph.csr.nnz + graph.nodes), graph.width)
    seconds_of = parts_of(lambda: engine.epoch(0, PlainClock()), shape, 1e9).seconds
    assert all(seconds_of[name] > 0 for name in PARTS), seconds_of
