"""Attention by kept CSR products against attention along the edges: any small graph, hubs, one head or several."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from backends.reference.attention import attention_of
from datasets.csr import Csr, csr_from_edges

EDGES = st.lists(st.tuples(st.integers(0, 6), st.integers(0, 6)), max_size=30)


def answers(csr: Csr, variant: str, heads: int, width: int, dropout: float, scale: float):
    """Output and the gradient of each operand, for operands drawn from a fixed seed."""
    torch.manual_seed(3)
    nodes = csr.shape[0]
    shapes = (nodes, heads, width), (nodes, heads), (nodes, heads)
    operands = [(scale * torch.randn(shape)).requires_grad_() for shape in shapes]
    torch.manual_seed(5)  # of the dropout
    out = attention_of(csr, variant).attend(*operands, 0.2, dropout)
    (out * torch.linspace(-1, 1, out.numel()).view_as(out)).sum().backward()
    return [out.detach(), *(operand.grad for operand in operands)]


@pytest.mark.parametrize("variant", ["cached", "reduce_cached"])
@settings(max_examples=25, deadline=None)
@given(edges=EDGES, heads=st.integers(1, 3), width=st.integers(1, 5), scale=st.sampled_from([0.1, 1.0, 30.0]))
def test_products_equal_sums_along_the_edges(variant, edges, heads, width, scale):
    ends = np.array(edges, dtype=np.int64).reshape(-1, 2)
    csr = csr_from_edges(ends[:, 0], ends[:, 1], (7, 7))
    expected = answers(csr, "scatter", heads, width, 0.0, scale)
    for value, reference in zip(answers(csr, variant, heads, width, 0.0, scale), expected, strict=True):
        torch.testing.assert_close(value, reference, rtol=1e-4, atol=1e-5 * max(1.0, scale))


@pytest.mark.parametrize(("nodes", "edges"), [(1, 2), (2, 9), (7, 84)])
def test_more_parallel_edges_than_pairs_of_nodes(nodes, edges):
    sources, destinations = np.random.default_rng(0).integers(nodes, size=(2, edges))
    csr = csr_from_edges(sources, destinations, (nodes, nodes))
    expected = answers(csr, "scatter", 2, 3, 0.0, 1.0)
    for value, reference in zip(answers(csr, "cached", 2, 3, 0.0, 1.0), expected, strict=True):
        torch.testing.assert_close(value, reference, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("nodes", [1, 3])
def test_nodes_without_edges_get_zeros(nodes):
    empty = csr_from_edges(np.empty(0, dtype=np.int64), np.empty(0, dtype=np.int64), (nodes, nodes))
    assert all(bool((value == 0).all()) for value in answers(empty, "cached", 2, 1, 0.0, 1.0))


def test_a_hub_and_dropout_by_the_same_mask():
    sources = np.arange(5000)
    csr = csr_from_edges(sources, np.zeros(5000, dtype=np.int64), (5000, 5000))
    expected = answers(csr, "scatter", 1, 4, 0.5, 1.0)
    for value, reference in zip(answers(csr, "cached", 1, 4, 0.5, 1.0), expected, strict=True):
        torch.testing.assert_close(value, reference, rtol=1e-3, atol=1e-6)
