"""Order ``parts``: any engine's parts one after the other, with bounds that engines and predictions can rely on."""

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from backends.base.order_of_parts import parts
from backends.contract import PartitionTask
from datasets.csr import csr_from_edges
from datasets.graph import Graph
from datasets.order import apply_order, renumbering_of
from datasets.statistics import rows_of_other_parts
from harness.measure.partition_quality import quality_of


def random_csr(seed: int, nodes: int, edges: int, hub: bool):
    draws = np.random.default_rng(seed)
    source, destination = draws.integers(0, nodes, (2, edges))
    if hub:
        destination[: edges // 2] = 0
    return csr_from_edges(source, destination, (nodes, nodes))


@given(
    seed=st.integers(0, 99),
    nodes=st.integers(1, 60),
    degree=st.integers(0, 6),
    count=st.integers(1, 5),
    method=st.sampled_from(["random", "multilevel", "fennel", "ldg"]),
    balance=st.sampled_from(["nodes", "edges"]),
    hub=st.booleans(),
)
def test_the_order_is_that_of_the_parts(seed, nodes, degree, count, method, balance, hub):
    csr, count = random_csr(seed, nodes, nodes * degree, hub), min(count, nodes)
    options = {"options": {"method": method}, "parts": count, "balance": balance, "seed": seed}
    numbering = renumbering_of("parts", csr, options)
    bounds = numbering.part_bounds
    assert bounds[0] == 0 and bounds[-1] == nodes and len(bounds) == count + 1 and (np.diff(bounds) >= 0).all()
    np.testing.assert_array_equal(numbering.order, parts(csr, **options).order)
    for begin, end in pairwise(bounds.tolist()):
        assert (np.diff(numbering.order[begin:end]) > 0).all()  # by old id inside of a part

    graph = Graph("moved", csr)
    moved = apply_order(graph, numbering.order, bounds)
    assignment = np.empty(nodes, dtype=np.int64)
    assignment[numbering.order] = np.repeat(np.arange(count), np.diff(bounds))
    task = PartitionTask(count, np.ones((nodes, 1), dtype=np.int64), 1.03, "cut", 0, 1)
    predicted = rows_of_other_parts(moved.csr, moved.part_bounds)
    assert predicted == quality_of(graph, task, assignment)["volume"]
    assert apply_order(moved, np.arange(nodes)).part_bounds is None


def test_peers_order_too():
    csr = random_csr(1, 200, 900, hub=False)
    by_metis = parts(csr, "partitioners", parts=4, options={"tool": "metis"})
    assert sorted(by_metis.order) == list(range(200)) and by_metis.part_bounds[-1] == 200


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"engine": "blocksparse"}, "engine of order parts 'blocksparse' is unknown: allowed are .*distpart"),
        ({"engine": "partitoners"}, "did you mean 'partitioners'"),
        ({"options": {"tool": "metis"}}, "option of backend distpart 'tool' is unknown: allowed are .*method"),
        ({"options": {"method": "metis"}}, "backend.method='metis' is not allowed"),
        ({"parts": 11}, "parts=11: allowed are 1 to 10, the nodes of the graph"),
        ({"parts": 0}, "parts=0: allowed are 1 to 10"),
        ({"balance": "degrees"}, "balance of order parts 'degrees' is unknown: allowed are nodes, edges"),
        ({"imbalance": 0.5}, "imbalance=0.5: allowed are 1 and more"),
        ({"inductive": True}, "the data set is inductive"),
    ],
)
def test_wrong_options_are_refused_by_name(options, message):
    with pytest.raises(ValueError, match=message):
        parts(random_csr(0, 10, 30, hub=False), **options)


def test_inductive_data_sets_are_refused_by_name():
    graph = replace(Graph("inductive", random_csr(0, 10, 30, hub=False)), inductive=True)
    with pytest.raises(ValueError, match="choose another order"):
        renumbering_of("parts", graph.csr, inductive=graph.inductive)
