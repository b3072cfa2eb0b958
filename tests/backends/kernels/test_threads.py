"""Any number of threads gives the same bits, forward and backward, with hubs that are split among them."""

import numpy as np
import pytest
import torch

from backends.kernels import edge_softmax, gat, khop, sddmm, spmm
from datasets.csr import Csr
from tests.backends.kernels.matrices import hubs_csr, tensor, use_plain

MATRIX = hubs_csr()


def numbers(seed, *shape):
    return tensor(seed, *shape, dtype=torch.float32).requires_grad_()


def multiply(reduce, weighted, width):
    x, weight = numbers(1, 500, width), numbers(2, MATRIX.nnz)
    return lambda x, *weight: spmm(MATRIX, x, *weight, reduce=reduce), (x, weight) if weighted else (x,)


def products(heads, width):
    return lambda a, b: sddmm(MATRIX, a, b), (numbers(1, 500, heads, width), numbers(2, 500, heads, width))


def softmax(heads):
    return lambda logits: edge_softmax(MATRIX, logits), (numbers(1, MATRIX.nnz, heads),)


def attention(heads, width, shared=False, fixed=False):
    def attend(z, src, dst, edge):
        return gat(MATRIX, z, src, dst, edge, dropout=0.3, seed=4)

    z = numbers(1, 500, 1 if shared else heads, width)
    scores = numbers(2, 500, heads), numbers(3, 500, heads), numbers(4, MATRIX.nnz, heads)
    if fixed:
        return lambda src, *others: attend(z.detach().to(src.dtype), src, *others), scores
    return attend, (z, *scores)


CASES = {
    f"{reduce} {'weighted' if weighted else 'plain'} {width}": (multiply, reduce, weighted, width)
    for reduce in ("sum", "mean", "max")
    for weighted in (True, False)
    for width in (5, 64, 200)
}
CASES |= {f"sddmm {heads} {width}": (products, heads, width) for heads, width in ((1, 5), (1, 64), (3, 40))}
CASES |= {f"softmax {heads}": (softmax, heads) for heads in (1, 3)}
CASES |= {f"gat {heads} {width}": (attention, heads, width) for heads, width in ((1, 5), (2, 64), (8, 8))}
CASES |= {f"gat of shared rows {heads} {width}": (attention, heads, width, True) for heads, width in ((2, 5), (8, 64))}
CASES |= {
    f"gat of fixed rows {heads} {width}": (attention, heads, width, False, True) for heads, width in ((1, 64), (3, 5))
}
CASES |= {"gat of fixed shared rows 4 64": (attention, 4, 64, True, True)}


@pytest.fixture(autouse=True)
def _threads_as_before():
    before = torch.get_num_threads()
    yield
    torch.set_num_threads(before)


def results(call, inputs):
    """Outputs and gradients, for output gradients that depend on nothing but their shape."""
    out = call(*inputs)
    return out.detach(), *torch.autograd.grad(out, inputs, tensor(9, *out.shape, dtype=out.dtype))


@pytest.mark.parametrize("case", CASES)
def test_results_are_bit_identical(case):
    make, *settings = CASES[case]
    call, inputs = make(*settings)
    runs = []
    for threads in (1, 2, 3, 8):
        torch.set_num_threads(threads)
        runs.append(results(call, inputs))
    assert all(torch.equal(one, other) for run in runs[1:] for one, other in zip(runs[0], run, strict=True))


@pytest.mark.parametrize("case", [name for name in CASES if "200" not in name])
def test_results_with_hubs_are_those_of_plain_torch(case, monkeypatch):
    make, *settings = CASES[case]
    call, inputs = make(*settings)
    inputs = [part.detach().double().requires_grad_() for part in inputs]
    actual = results(call, inputs)
    use_plain(monkeypatch)
    for one, other in zip(actual, results(call, inputs), strict=True):
        torch.testing.assert_close(one, other, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("scope", ["node", "target"])
@pytest.mark.parametrize("fanouts", [(10, 15), (3, 4, 5), (None, 15)], ids=str)
@pytest.mark.parametrize("nodes", [3, 4_096, 100_000])  # one range of bits, a whole one, and more than threads
def test_a_search_is_the_same_with_any_number_of_threads(nodes, fanouts, scope):
    random = np.random.default_rng(nodes)
    destinations = np.sort(np.concatenate((random.integers(0, nodes, 5 * nodes), np.zeros(20_000, dtype=np.int64))))
    indptr = np.searchsorted(destinations, np.arange(nodes + 1)).astype(np.int32)
    csr = Csr(indptr, random.integers(0, nodes, len(destinations)).astype(np.int32), (nodes, nodes))
    targets = random.integers(0, nodes, min(nodes, 600) if None not in fanouts else 3)
    searches = []
    for threads in (1, 2, 3, 7, 64):
        torch.set_num_threads(threads)
        search = khop(csr, targets, fanouts, seed=5, scope=scope)
        searches.append((search.nodes, search.csr.indptr, search.csr.indices, search.positions))
    for other in searches[1:]:
        for first, second in zip(searches[0], other, strict=True):
            np.testing.assert_array_equal(first, second)
