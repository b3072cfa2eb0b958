"""Attention whose heads share one row of each source, and products of each head's rows with its own weight."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from backends.kernels import gat, gat_layer, head_products
from tests.backends.kernels.matrices import hubs_csr, matrices, random_csr, tensor, use_plain

WIDTHS = st.sampled_from([1, 3, 4, 8, 16, 32, 50, 64, 200])
HEADS = st.sampled_from([1, 2, 3, 4, 5, 8, 12])


def with_gradients(function, inputs, seed=9):
    """The result and the gradients of all inputs, for a random direction."""
    inputs = [one.detach().clone().requires_grad_() for one in inputs]
    out = function(*inputs)
    return out, *torch.autograd.grad(out, inputs, tensor(seed, *out.shape, dtype=out.dtype))


def operands(csr, heads, width, edges=False, dtype=torch.float64):
    rows, columns = csr.shape
    shapes = [(columns, 1, width), (columns, heads), (rows, heads), *([(csr.nnz, heads)] if edges else [])]
    return [tensor(seed, *shape, dtype=dtype) for seed, shape in enumerate(shapes)]


def check_shared(csr, heads, width, edges=False, dtype=torch.float64, bound=1e-9, **options):
    """Equal to attention over a copy of the row for every head, with all gradients."""
    inputs = operands(csr, heads, width, edges, dtype)
    actual = with_gradients(lambda z, *scores: gat(csr, z, *scores, **options), inputs)
    expected = with_gradients(lambda z, *scores: gat(csr, z.repeat(1, heads, 1), *scores, **options), inputs)
    for one, other in zip(actual, expected, strict=True):
        assert one.shape == other.shape
        scale = float(other.detach().abs().max()) if other.numel() else 0.0
        torch.testing.assert_close(one, other, rtol=0, atol=bound * max(scale, 1.0))


@given(matrices(), HEADS, WIDTHS, st.booleans(), st.sampled_from([0.0, 0.4]))
def test_a_shared_row_is_a_row_for_every_head(csr, heads, width, edges, dropout):
    check_shared(csr, heads, width, edges, dropout=dropout, seed=5)


@pytest.mark.parametrize("heads", [2, 4, 8, 12])
@pytest.mark.parametrize("width", [4, 8, 16, 32, 64, 70])
def test_in_float32_too(heads, width):
    check_shared(random_csr(heads, 90, 70, 2500), heads, width, dtype=torch.float32, bound=5e-6)


@pytest.mark.parametrize(("heads", "width"), [(2, 5), (4, 32), (8, 8)])
def test_hubs_are_cut_as_elsewhere(heads, width):
    check_shared(hubs_csr(), heads, width, dropout=0.3, seed=4)


@pytest.mark.parametrize("form", ["plain", "scatter"])
def test_every_form_reads_shared_rows(form, monkeypatch):
    csr = random_csr(3, 30, 20, 200)
    inputs = operands(csr, 3, 9, edges=True)
    expected = with_gradients(lambda *parts: gat(csr, *parts), inputs)
    if form == "plain":
        use_plain(monkeypatch)
    actual = with_gradients(lambda *parts: gat(csr, *parts, row_parallel=form == "plain"), inputs)
    for one, other in zip(actual, expected, strict=True):
        torch.testing.assert_close(one, other)


def test_a_layer_reads_shared_rows():
    csr = random_csr(3, 30, 20, 200)
    inputs = [*operands(csr, 3, 9), tensor(7, 27)]
    actual = with_gradients(lambda *parts: gat_layer(csr, *parts, "elu"), inputs)
    expected = with_gradients(lambda z, *others: gat_layer(csr, z.repeat(1, 3, 1), *others, "elu"), inputs)
    for one, other in zip(actual, expected, strict=True):
        torch.testing.assert_close(one, other)


@given(st.integers(0, 9), st.integers(1, 5), st.integers(1, 9), st.integers(1, 9))
def test_products_by_head_equal_their_definition(rows, heads, k, width):
    x, weight = tensor(1, rows, heads, k), tensor(2, k, heads * width)

    def definition(x, weight):
        return torch.einsum("rhk,khd->rhd", x, weight.view(k, heads, width)).flatten(1)

    for one, other in zip(
        with_gradients(head_products, (x, weight)), with_gradients(definition, (x, weight)), strict=True
    ):
        torch.testing.assert_close(one, other)


@pytest.mark.parametrize(("x", "weight", "message"), [
    ((3, 2, 4), (5, 6), "are needed"), ((3, 2, 4), (4, 5), "are needed"), ((3, 4), (4, 6), "are needed"),
], ids=["another k", "half a head", "no heads"])  # fmt: skip
def test_products_of_shapes_that_do_not_fit_are_refused(x, weight, message):
    with pytest.raises(ValueError, match=message):
        head_products(torch.ones(x), torch.ones(weight))


def test_products_of_two_types_are_refused():
    with pytest.raises(ValueError, match="both must be float32"):
        head_products(torch.ones(3, 2, 4), torch.ones(4, 6, dtype=torch.float64))
