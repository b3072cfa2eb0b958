"""Sizes of dense layers against a count by hand, and the facts of an SpMM against its matrix."""

import pytest

from backends.base.facts import dense_flops, spmm_facts
from backends.model import ModelSpec
from tests.graphs import awkward_graph


@pytest.mark.parametrize(
    ("model", "layer", "expected"),
    [
        ("gcn", 0, 2 * (2 * 7 * 5 * 100)),  # forward and the weight's gradient
        ("gcn", 1, 3 * (2 * 5 * 3 * 100)),  # and the input's
        ("sage", 1, 3 * (2 * 5 * 3 * (100 + 60))),  # own rows have a weight of their own
        ("gat", 0, 2 * (2 * 7 * 5 * 4 * 100)),  # four heads
    ],
)
def test_dense_layers_are_counted_by_their_products(model, layer, expected):
    spec = ModelSpec(model, 2, 7, 5, 3, heads=4)
    assert dense_flops(spec, layer, 100, 60) == expected


def test_an_spmm_is_described_by_sizes_alone():
    csr = awkward_graph(4).csr
    facts = spmm_facts({"name": "forward", "csr": csr, "width": 8, "itemsize": 4, "count": 2})
    sizes = {"nnz": csr.nnz, "rows": csr.shape[0], "columns": csr.shape[1]}
    assert facts == {"name": "forward", **sizes, "width": 8, "count": 2}
