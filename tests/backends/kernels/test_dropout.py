"""Dropout by a hash: equal in all forms, of the right rate, independent of its neighbours."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats
from scipy.sparse import random as random_sparse

from backends.kernels import Mask, dropout, dropout_values, mask_key, plain
from backends.kernels.operand import build_transpose, operand
from datasets.csr import Csr

SHAPES = st.tuples(st.integers(0, 40), st.integers(0, 70))
DRAWS = 10**7
SURE = 1e-6  # least p-value of a right mask, of which a few dozen are tested


def mask_of(rows: int, rate: float, seed: int = 0, numbered: bool = True) -> Mask:
    numbers = np.random.default_rng(seed).integers(0, 1 << 40, rows)
    return Mask(rate, mask_key(seed, 3, 1), torch.from_numpy(numbers) if numbered else None)


@given(SHAPES, st.floats(0.0, 0.99), st.sampled_from([torch.float32, torch.float64]), st.integers(0, 9), st.booleans())
def test_native_plain_dense_and_sparse_drop_the_same_entries(shape, rate, dtype, seed, numbered):
    stored = random_sparse(*shape, density=0.4, format="csr", random_state=seed)
    csr, values = Csr(stored.indptr, stored.indices, shape), torch.from_numpy(stored.data).to(dtype)
    x, mask = torch.from_numpy(stored.toarray()).to(dtype), mask_of(shape[0], rate, seed, numbered)
    dense, sparse = dropout(x, mask), dropout_values(csr, values, mask)
    assert torch.equal(dense, plain.dropout(x, mask))
    assert torch.equal(sparse, plain.dropout_values(operand(csr), values, mask))
    stored.data = sparse.double().numpy()
    assert np.array_equal(stored.toarray(), dense.double().numpy())


@given(
    st.integers(0, 700), st.integers(0, 40), st.floats(0.0, 0.9), st.sampled_from([np.int32, np.int64]), st.booleans()
)
def test_values_of_a_kept_transpose_are_those_of_the_matrix(rows, columns, rate, kind, numbered):
    stored = random_sparse(rows, columns, density=0.4, format="csr", random_state=rows)
    csr = Csr(stored.indptr.astype(kind), stored.indices.astype(kind), (rows, columns))
    values, mask = torch.from_numpy(stored.data), mask_of(rows, rate, columns, numbered)
    matrix = operand(csr)
    expected = dropout_values(csr, values, mask).index_select(0, torch.from_numpy(matrix.permutation.astype(np.int64)))
    build_transpose(csr, values)
    for _ in range(2):  # the second time from what the first one kept
        assert torch.equal(matrix.transposed_weight(dropout_values(csr, values, mask)), expected)
    assert torch.equal(matrix.transposed_weight(values), values[matrix.permutation])


def test_a_mask_follows_its_node_and_not_its_row_or_the_threads():
    x, mask = torch.rand(1000, 37), mask_of(1000, 0.4)
    order = torch.randperm(1000)
    threads = torch.get_num_threads()
    try:
        torch.set_num_threads(1)
        one = dropout(x, mask)
    finally:
        torch.set_num_threads(threads)
    assert torch.equal(one, dropout(x, mask))
    assert mask.nodes is not None
    moved = dropout(x[order], Mask(mask.rate, mask.key, mask.nodes[order]))
    assert torch.equal(moved, one[order])


def test_gradients_pass_where_values_did():
    x, mask = torch.rand(50, 19, dtype=torch.float64, requires_grad=True), mask_of(50, 0.6)
    weight = torch.rand(50, 19, dtype=torch.float64)
    out = dropout(x, mask)
    (gradient,) = torch.autograd.grad(out, x, weight)
    assert torch.equal(gradient, dropout(weight, mask))
    assert torch.autograd.gradcheck(lambda y: dropout(y, mask), x)


def test_masks_differ_between_epochs_layers_seeds_and_nodes():
    ones = torch.ones(200, 100)
    retained = [dropout(ones, Mask(0.5, mask_key(*key))) > 0 for key in ((0, 0, 0), (0, 1, 0), (0, 0, 1), (1, 0, 0))]
    for number, first in enumerate(retained):
        for second in retained[:number]:
            assert abs((first == second).double().mean() - 0.5) < 0.02


@pytest.mark.parametrize("rate", [0.1, 0.5, 0.6, 0.9])
@pytest.mark.parametrize("shape", [(7000, 1433), (DRAWS // 16, 16), (3, DRAWS // 3), (DRAWS, 1)])
def test_rate_mean_variance_and_independence_of_neighbours(shape, rate):
    out = dropout(torch.ones(shape), Mask(rate, mask_key(5, 2, 0)))
    retained = (out > 0).numpy()
    assert stats.binomtest(int(retained.sum()), retained.size, 1 - rate).pvalue > SURE
    assert torch.unique(out).tolist() == pytest.approx([0.0, 1 / (1 - rate)])
    assert float(out.mean(dtype=torch.float64)) == pytest.approx(1.0, abs=6 * (rate / (1 - rate) / out.numel()) ** 0.5)
    for first, second in neighbours(retained):
        table = np.bincount(2 * first.ravel() + second.ravel(), minlength=4).reshape(2, 2)
        assert stats.chi2_contingency(table, lambda_="log-likelihood").pvalue > SURE


def neighbours(retained):
    """Pairs of entries next to each other, and some columns and rows apart."""
    for distance in (1, 2, 16):
        if retained.shape[1] > distance:
            yield retained[:, distance:], retained[:, :-distance]
        if retained.shape[0] > distance:
            yield retained[distance:], retained[:-distance]


@pytest.mark.parametrize("rows", [1, 10_000])
def test_the_share_of_retained_entries_of_a_row_is_binomial(rows):
    width, rate = 1000, 0.3
    counts = (dropout(torch.ones(rows, width), Mask(rate, mask_key(1, 0, 0))) > 0).sum(1).double().numpy()
    if rows == 1:
        assert stats.binomtest(int(counts[0]), width, 1 - rate).pvalue > SURE
    else:
        spread = counts.var() / (width * rate * (1 - rate))
        assert abs(spread - 1) < 6 * (2 / rows) ** 0.5


def test_no_dropout_returns_the_input_itself():
    x = torch.rand(3, 4)
    assert dropout(x, Mask(0.0, 1)) is x


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: dropout(torch.rand(3), Mask(0.5, 1)), r"\[rows, f\]"),
        (lambda: dropout(torch.rand(3, 2), Mask(1.0, 1)), "from 0 to below 1"),
        (lambda: dropout(torch.rand(3, 2), Mask(0.5, 1, torch.arange(2))), "there are 3 rows"),
        (lambda: dropout(torch.rand(3, 2), Mask(0.5, 1, torch.arange(3).int())), "allowed is int64"),
        (lambda: dropout(torch.ones(3, 2, dtype=torch.int64), Mask(0.5, 1)), "allowed are float32, float64"),
        (
            lambda: dropout_values(Csr(np.array([0, 1]), np.array([0]), (1, 1)), torch.rand(2), Mask(0.5, 1)),
            "the matrix stores 1",
        ),
    ],
)
def test_bad_arguments_are_refused(call, message):
    with pytest.raises(ValueError, match=message):
        call()
