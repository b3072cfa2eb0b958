"""Aggregation against dense products in float64, with gradients, in every form that the kernels have."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from backends.kernels import gat, partition_rows, spmm
from backends.kernels.extension import extension
from backends.kernels.operand import HUB_EDGES, operand, unpartitioned
from datasets.csr import Csr, csr_from_edges
from tests.backends.kernels.matrices import (
    LAYOUTS,
    WIDTHS,
    close,
    hub_csr,
    matrices,
    numpy_gat,
    numpy_spmm,
    random_csr,
    tensor,
    use_plain,
)
from tests.graphs import awkward_graph

FORMS = ["native", "plain", "scatter"]
REDUCE = st.sampled_from(["sum", "mean"])


@pytest.fixture(params=FORMS)
def form(request, monkeypatch):
    """Run with the extension, without it, and scattered; returns the ``row_parallel`` to pass."""
    if request.param == "plain":
        use_plain(monkeypatch)
    return request.param != "scatter"


def dense_of(csr, weight):
    matrix = torch.zeros(csr.shape, dtype=torch.float64)
    rows, columns = torch.from_numpy(csr.destinations.astype(np.int64)), torch.from_numpy(csr.indices.astype(np.int64))
    return matrix.index_put((rows, columns), weight, accumulate=True)


def test_the_extension_is_built_where_tests_run():
    assert extension is not None
    assert extension.hub_segment == HUB_EDGES


@given(
    st.integers(0, 99), st.integers(1, 12), st.integers(1, 12), st.integers(0, 60), WIDTHS,
    st.booleans(), st.sampled_from(["sum", "mean"]), st.sampled_from([np.int32, np.int64]), st.booleans(),
)  # fmt: skip
def test_native_spmm_and_gradients_equal_the_dense_product(
    seed, rows, columns, edges, width, weighted, reduce, dtype, contiguous
):
    check_spmm(random_csr(seed, rows, columns, edges, dtype), seed, width, weighted, reduce, True, contiguous)


@pytest.mark.parametrize("reduce", ["sum", "mean"])
@pytest.mark.parametrize("weighted", [True, False])
def test_every_form_equals_the_dense_product(form, weighted, reduce):
    check_spmm(awkward_graph(5, nodes=15, edges=40).csr, 5, 11, weighted, reduce, form, True)


def check_spmm(csr, seed, width, weighted, reduce, row_parallel, contiguous):
    draw = torch.Generator().manual_seed(seed)
    x = torch.randn(csr.shape[1], width, generator=draw, dtype=torch.float64, requires_grad=True)
    laid_out = x if contiguous else x.T.contiguous().T
    weight = torch.rand(csr.nnz, generator=draw, dtype=torch.float64, requires_grad=True)
    expected = dense_of(csr, weight if weighted else torch.ones_like(weight)) @ x
    if reduce == "mean":
        expected = expected / torch.from_numpy(np.maximum(csr.in_degrees, 1))[:, None]
    actual = spmm(csr, laid_out, weight if weighted else None, reduce, row_parallel)
    torch.testing.assert_close(actual, expected)
    inputs = (x, weight) if weighted else (x,)
    direction = torch.randn(expected.shape, generator=draw, dtype=torch.float64)
    pairs = zip(
        torch.autograd.grad(actual, inputs, direction), torch.autograd.grad(expected, inputs, direction), strict=True
    )
    for one, other in pairs:
        torch.testing.assert_close(one, other)


@pytest.mark.parametrize("weighted", [True, False])
@pytest.mark.parametrize("width", [3, 8, 16, 24, 32, 64])
def test_a_table_beyond_the_caches_gives_the_same_bits(width, weighted):
    csr, draw = random_csr(width, 40, 50, 900), torch.Generator().manual_seed(width)
    x, weight = torch.randn(50, width, generator=draw), torch.rand(csr.nnz, generator=draw) if weighted else None
    columns = extension.near_bytes // (4 * width) + 50
    places = np.random.default_rng(width).choice(columns, 50, replace=False)
    table = torch.zeros(columns, width)
    table[torch.from_numpy(places)] = x
    far = Csr(csr.indptr, places[csr.indices].astype(np.int32), (40, columns))
    assert torch.equal(spmm(far, table, weight), spmm(csr, x, weight))


@given(st.integers(0, 99), WIDTHS, st.booleans())
def test_float32_is_as_close_to_float64_as_its_rounding_allows(seed, width, weighted):
    csr = awkward_graph(seed, nodes=30, edges=90).csr
    draw = torch.Generator().manual_seed(seed)
    x = torch.randn(30, width, generator=draw, dtype=torch.float64)
    weight = torch.rand(csr.nnz, generator=draw, dtype=torch.float64) if weighted else None
    exact = spmm(csr, x, weight)
    actual = spmm(csr, x.float(), None if weight is None else weight.float())
    scale = spmm(csr, x.abs(), weight)
    assert bool(((actual - exact).abs() <= 1e-5 * scale + 1e-30).all())


@given(st.integers(0, 50), st.sampled_from([1, 2, 3, 4, 8]), st.integers(1, 20), st.floats(0.0, 0.9), st.booleans())
def test_native_attention_has_the_gradients_of_its_own_finite_differences(seed, heads, width, dropout, edges):
    csr = random_csr(seed, 7, 6, 20)
    draw = torch.Generator().manual_seed(seed)
    shapes = ((6, heads, width), (6, heads), (7, heads), *([(csr.nnz, heads)] if edges else []))
    inputs = [torch.randn(shape, generator=draw, dtype=torch.float64, requires_grad=True) for shape in shapes]

    def attend(*operands):
        return gat(csr, *operands, dropout=dropout, seed=seed)

    assert torch.autograd.gradcheck(attend, inputs, fast_mode=True)


def test_every_form_of_attention_agrees(form):
    csr = awkward_graph(3, nodes=40, edges=200).csr
    draw = torch.Generator().manual_seed(1)
    z, src, dst = (torch.randn(shape, generator=draw, dtype=torch.float64) for shape in ((40, 3, 9), (40, 3), (40, 3)))
    edge = torch.randn(csr.nnz, 3, generator=draw, dtype=torch.float64)
    alpha = torch.zeros(40, 40, 3, dtype=torch.float64)
    for e in range(csr.nnz):
        i, j = int(csr.destinations[e]), int(csr.indices[e])
        alpha[i, j] += torch.exp(torch.nn.functional.leaky_relu(src[j] + dst[i] + edge[e], 0.2))
    alpha = alpha / alpha.sum(1, keepdim=True).clamp(min=1e-300)
    torch.testing.assert_close(gat(csr, z, src, dst, edge, row_parallel=form), torch.einsum("ijh,jhd->ihd", alpha, z))


@pytest.mark.parametrize("heads", [1, 2, 3, 4, 6, 8, 12, 16, 32])
@pytest.mark.parametrize("width", [5, 16, 64])
def test_attention_in_float32_is_as_close_to_float64_as_its_rounding_allows(heads, width):
    csr = random_csr(heads, 90, 70, 2500)
    draw = torch.Generator().manual_seed(width)
    shapes = ((70, heads, width), (70, heads), (90, heads), (csr.nnz, heads))
    exact = [torch.randn(shape, generator=draw, dtype=torch.float64, requires_grad=True) for shape in shapes]
    rounded = [operand.detach().float().requires_grad_() for operand in exact]
    direction = torch.randn(90, heads, width, generator=draw, dtype=torch.float64)
    expected, actual = gat(csr, *exact), gat(csr, *rounded)
    pairs = zip(
        (expected, *torch.autograd.grad(expected, exact, direction)),
        (actual, *torch.autograd.grad(actual, rounded, direction.float())),
        strict=True,
    )
    for one, other in pairs:
        assert float((one - other).detach().abs().max()) <= 5e-6 * float(one.detach().abs().max())


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_a_nan_score_reaches_all_gradients_of_its_row(dtype):
    csr = csr_from_edges(np.array([0, 1, 2]), np.array([0, 0, 1]), (2, 3))
    z, src, dst = (torch.ones(shape, dtype=dtype, requires_grad=True) for shape in ((3, 1, 4), (3, 1), (2, 1)))
    with torch.no_grad():
        src[0] = torch.nan
    grads = torch.autograd.grad(gat(csr, z, src, dst).sum(), (z, src, dst))
    assert [part.isnan().flatten(1).any(1).tolist() for part in grads] == [[True, True, False]] * 2 + [[True, False]]


@pytest.mark.parametrize("width", [3, 8, 9, 72, 136, 200])
def test_rows_longer_than_a_block_of_edges_are_summed_once(width):
    csr = random_csr(width, 4, 12, 3000)
    check_spmm(csr, 1, width, True, "mean", True, True)
    draw = torch.Generator().manual_seed(1)
    z, src, dst = (
        torch.randn(shape, generator=draw, dtype=torch.float64) for shape in ((12, 2, width), (12, 2), (4, 2))
    )
    torch.testing.assert_close(gat(csr, z, src, dst), gat(csr, z, src, dst, row_parallel=False))


@pytest.mark.parametrize("heads", [1, 3])
def test_a_hub_of_several_segments_attends_like_any_other_row(heads):
    draw, edges = torch.Generator().manual_seed(heads), 2 * HUB_EDGES + 7
    few = np.arange(80)  # to other rows too: of a softmax over one source alone the scores' gradients would be 0
    there = csr_from_edges(
        np.concatenate((np.arange(edges) % 40, few % 40)),
        np.concatenate((np.zeros(edges, dtype=np.int64), 1 + few % 2)),
        (3, 40),
    )
    for csr in (there, there.transpose[0]):  # the hub receives, then it sends
        shapes = ((csr.shape[1], heads, 5), (csr.shape[1], heads), (csr.shape[0], heads))
        one, other = (
            [torch.randn(s, generator=draw.manual_seed(1), dtype=torch.float64, requires_grad=True) for s in shapes]
            for _ in range(2)
        )
        actual, expected = gat(csr, *one), gat(csr, *other, row_parallel=False)
        torch.testing.assert_close(actual, expected)
        actual.square().sum().backward()
        expected.square().sum().backward()
        for a, b in zip(one, other, strict=True):
            torch.testing.assert_close(a.grad, b.grad)


def test_a_weight_that_is_written_to_is_turned_again():
    graph, other = (awkward_graph(2, nodes=12, edges=30).csr for _ in range(2))
    x, weight = torch.randn(12, 9, requires_grad=True), torch.rand(graph.nnz)
    for _ in range(2):
        # another matrix object: this one's cached weights must stay as they are
        expected = torch.autograd.grad(spmm(other, x, weight.clone()).sum(), x)[0]
        for _ in range(2):
            torch.testing.assert_close(torch.autograd.grad(spmm(graph, x, weight).sum(), x)[0], expected)
        weight.mul_(3.0)


def test_dropout_drops_its_share_and_keeps_the_mean():
    star = csr_from_edges(np.arange(1, 4001), np.zeros(4000, dtype=np.int64), (1, 4001))
    z = torch.eye(4001, dtype=torch.float64)[:, None, :]
    torch.manual_seed(0)
    out = gat(star, z, torch.zeros(4001, 1, dtype=torch.float64), torch.zeros(1, 1, dtype=torch.float64), dropout=0.25)
    survivors = int((out > 0).sum())
    assert abs(survivors - 3000) < 150
    torch.testing.assert_close(out.max(), torch.tensor(1 / 4000 / 0.75, dtype=torch.float64))


@given(st.integers(0, 99), st.integers(0, 200), st.integers(1, 40))
def test_pieces_cover_all_rows_once(seed, edges, parts):
    csr = random_csr(seed, 23, 9, edges)
    bounds = partition_rows(csr, parts)
    assert bounds[0] == 0 and bounds[-1] == 23 and len(bounds) == parts + 1
    assert bool((np.diff(bounds) >= 0).all())


@given(matrices(), WIDTHS, st.booleans(), REDUCE, LAYOUTS)
def test_sums_and_means(csr, width, weighted, reduce, layout):
    x, weight = tensor(1, csr.shape[1], width, layout=layout), tensor(2, csr.nnz, layout=layout) if weighted else None
    close(spmm(csr, x, weight, reduce), numpy_spmm(csr, x.numpy(), weight.numpy() if weighted else None, reduce))


@given(matrices(), st.integers(1, 20), REDUCE)
def test_sums_and_means_have_the_gradients_of_finite_differences(csr, width, reduce):
    x, weight = tensor(1, csr.shape[1], width).requires_grad_(), tensor(2, csr.nnz).requires_grad_()
    assert torch.autograd.gradcheck(lambda x, w: spmm(csr, x, w, reduce), (x, weight), fast_mode=True)
    assert torch.autograd.gradcheck(lambda x: spmm(csr, x, reduce=reduce), (x,), fast_mode=True)


@given(matrices(), st.one_of(st.integers(1, 5), st.just(8)), WIDTHS, LAYOUTS)
def test_attention(csr, heads, width, layout):
    z = tensor(1, csr.shape[1], heads, width, layout=layout)
    src, dst = (tensor(seed, n, heads, layout=layout) for seed, n in ((2, csr.shape[1]), (3, csr.shape[0])))
    close(gat(csr, z, src, dst), numpy_gat(csr, z.numpy(), src.numpy(), dst.numpy()))


@given(matrices(), st.integers(1, 4), st.integers(1, 12))
def test_attention_has_the_gradients_of_finite_differences(csr, heads, width):
    z = tensor(1, csr.shape[1], heads, width).requires_grad_()
    src, dst = (tensor(seed, n, heads).requires_grad_() for seed, n in ((2, csr.shape[1]), (3, csr.shape[0])))
    assert torch.autograd.gradcheck(lambda z, src, dst: gat(csr, z, src, dst), (z, src, dst), fast_mode=True)


@pytest.mark.parametrize("width", [5, 64])
@pytest.mark.parametrize("in_pieces", [True, False])
def test_a_hubs_pieces_make_one_row(width, in_pieces):
    csr = hub_csr(100_000) if in_pieces else unpartitioned(hub_csr(100_000))
    x, weight, src, dst = tensor(1, 500, width), tensor(2, csr.nnz), tensor(3, 500, 1), tensor(4, 500, 1)
    for reduce in ("sum", "mean"):
        close(spmm(csr, x, weight, reduce), numpy_spmm(csr, x.numpy(), weight.numpy(), reduce))
    close(gat(csr, x[:, None], src, dst), numpy_gat(csr, x[:, None].numpy(), src.numpy(), dst.numpy()))


@pytest.mark.parametrize("reduce", ["sum", "mean", "max"])
@pytest.mark.parametrize("hub", [False, True])
def test_an_unpartitioned_matrix_is_one_piece_and_gives_the_same_bits(reduce, hub):
    csr = hub_csr(40_000) if hub else random_csr(1, 3000, 2000, 40_000)
    whole, draw = unpartitioned(csr), torch.Generator().manual_seed(1)
    x, weight = torch.randn(csr.shape[1], 24, generator=draw), torch.rand(csr.nnz, generator=draw)
    results = []
    for matrix in (csr, whole):
        leaf = x.clone().requires_grad_()
        out = spmm(matrix, leaf, weight, reduce)
        out.square().sum().backward()
        results.append((out.detach(), leaf.grad))
    assert torch.equal(results[0][0], results[1][0]) and torch.equal(results[0][1], results[1][1])
    bounds = [len(side.bounds) - 1 for side in (operand(whole).forward, operand(whole).backward)]
    assert bounds == [1, 1] and len(operand(csr).forward.bounds) > 9
    assert unpartitioned(csr) is whole
