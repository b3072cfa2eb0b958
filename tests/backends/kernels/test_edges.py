"""Values per edge and head, products and softmax, against numpy in float64, with gradients."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from backends.kernels import edge_softmax, gat, plain, sddmm, spmm
from backends.kernels.operand import operand, unpartitioned
from tests.backends.kernels.matrices import (
    LAYOUTS,
    WIDTHS,
    close,
    hub_csr,
    matrices,
    numpy_sddmm,
    numpy_softmax,
    random_csr,
    tensor,
    use_plain,
)

HEADS = st.one_of(st.integers(1, 5), st.sampled_from([8, 600]))
forms = pytest.mark.parametrize("built", [True, False])


def use(built, monkeypatch):
    if not built:
        use_plain(monkeypatch)


@given(matrices(), st.integers(1, 4), WIDTHS, LAYOUTS)
def test_products_of_both_ends(csr, heads, width, layout):
    a, b = (tensor(seed, n, heads, width, layout=layout) for seed, n in enumerate(csr.shape))
    close(sddmm(csr, a, b), numpy_sddmm(csr, a.numpy(), b.numpy()))


@given(matrices(), st.integers(1, 3), st.integers(1, 9))
def test_products_have_the_gradients_of_finite_differences(csr, heads, width):
    a, b = (tensor(seed, n, heads, width).requires_grad_() for seed, n in enumerate(csr.shape))
    assert torch.autograd.gradcheck(lambda a, b: sddmm(csr, a, b), (a, b), fast_mode=True)


@given(matrices(), HEADS, LAYOUTS)
def test_softmax_over_the_edges_of_a_row(csr, heads, layout):
    logits = 9 * tensor(1, csr.nnz, heads, layout=layout)
    close(edge_softmax(csr, logits), numpy_softmax(csr, logits.numpy()))


@given(matrices(), st.integers(1, 9))
def test_softmax_has_the_gradients_of_finite_differences(csr, heads):
    logits = tensor(1, csr.nnz, heads).requires_grad_()
    assert torch.autograd.gradcheck(lambda logits: edge_softmax(csr, logits), (logits,), fast_mode=True)


@given(matrices(most=40), st.integers(1, 5), WIDTHS)
def test_float32_is_as_close_to_float64_as_its_rounding_allows(csr, heads, width):
    a, b, logits = (
        tensor(1, csr.shape[0], heads, width),
        tensor(2, csr.shape[1], heads, width),
        tensor(3, csr.nnz, heads),
    )
    scale = sddmm(csr, a.abs(), b.abs())
    assert bool(((sddmm(csr, a.float(), b.float()) - sddmm(csr, a, b)).abs() <= 1e-6 * scale).all())
    alpha = edge_softmax(csr, logits)
    assert bool(((edge_softmax(csr, logits.float()) - alpha).abs() <= 2e-6 * alpha + 1e-30).all())


@forms
def test_without_the_extension_nothing_differs(built, monkeypatch):
    use(built, monkeypatch)
    csr = random_csr(3, 30, 20, 200)
    a, b = tensor(1, 30, 2, 9).requires_grad_(), tensor(2, 20, 2, 9).requires_grad_()
    alpha = edge_softmax(csr, sddmm(csr, a, b))
    close(alpha, numpy_softmax(csr, numpy_sddmm(csr, a.detach().numpy(), b.detach().numpy())))
    assert torch.autograd.gradcheck(lambda a, b: edge_softmax(csr, sddmm(csr, a, b)), (a, b), fast_mode=True)


@forms
@pytest.mark.parametrize("heads", [1, 3])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_a_masked_edge_has_weight_zero(built, heads, dtype, monkeypatch):
    use(built, monkeypatch)
    csr = random_csr(3, 6, 20, 100)
    logits, masked = tensor(1, 100, heads, dtype=dtype), torch.arange(100) % 3 == 1
    logits[masked] = -torch.inf
    alpha = edge_softmax(csr, logits)
    assert bool((alpha[masked] == 0).all()) and bool((alpha[~masked] > 0).all())


@forms
def test_nan_stays_in_its_row_and_head(built, monkeypatch):
    use(built, monkeypatch)
    csr = random_csr(3, 6, 20, 100)
    logits = tensor(1, 100, 3)
    logits[50, 1] = torch.nan
    alpha, row = edge_softmax(csr, logits).isnan(), csr.destinations == csr.destinations[50]
    assert torch.equal(alpha[:, 1], torch.from_numpy(row))
    assert not bool(alpha[:, [0, 2]].any())


@pytest.mark.parametrize("heads", [1, 3])
@pytest.mark.parametrize("in_pieces", [True, False])
def test_a_hubs_pieces_make_one_softmax(heads, in_pieces):
    csr = hub_csr(100_000) if in_pieces else unpartitioned(hub_csr(100_000))
    logits = tensor(1, csr.nnz, heads).requires_grad_()
    alpha = edge_softmax(csr, logits)
    close(alpha, numpy_softmax(csr, logits.detach().numpy()))
    (grad,) = torch.autograd.grad(alpha, logits, alpha.detach())
    expected = plain.edge_softmax(operand(csr), logits)
    torch.testing.assert_close(grad, *torch.autograd.grad(expected, logits, expected.detach()), rtol=1e-9, atol=1e-12)


@given(matrices(), st.integers(1, 20))
def test_attention_is_the_product_with_the_softmax_of_its_scores(csr, width):
    z, src, dst = tensor(1, csr.shape[1], 1, width), tensor(2, csr.shape[1], 1), tensor(3, csr.shape[0], 1)
    scores = torch.nn.functional.leaky_relu(src[csr.indices.astype(int)] + dst[csr.destinations.astype(int)], 0.2)
    composed = spmm(csr, z[:, 0], edge_softmax(csr, scores)[:, 0])
    torch.testing.assert_close(gat(csr, z, src, dst)[:, 0], composed)
