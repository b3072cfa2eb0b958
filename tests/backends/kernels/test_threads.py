"""Any number of threads gives the same bits, forward and backward, with a hub that is split among them."""

import pytest
import torch

from backends.kernels import edge_softmax, gat, sddmm, spmm
from backends.kernels.operand import HUB_EDGES
from tests.backends.kernels.matrices import hub_csr, tensor

MATRIX = hub_csr(2 * HUB_EDGES + 1000)


def numbers(seed, *shape):
    return tensor(seed, *shape, dtype=torch.float32).requires_grad_()


def multiply(reduce, weighted, width):
    x, weight = numbers(1, 500, width), numbers(2, MATRIX.nnz)
    return lambda: spmm(MATRIX, x, weight if weighted else None, reduce), (x, weight) if weighted else (x,)


def products(heads, width):
    a, b = numbers(1, 500, heads, width), numbers(2, 500, heads, width)
    return lambda: sddmm(MATRIX, a, b), (a, b)


def softmax(heads):
    logits = numbers(1, MATRIX.nnz, heads)
    return lambda: edge_softmax(MATRIX, logits), (logits,)


def attention(heads, width):
    z, src, dst = numbers(1, 500, heads, width), numbers(2, 500, heads), numbers(3, 500, heads)

    def attend():
        torch.manual_seed(0)
        return gat(MATRIX, z, src, dst, dropout=0.3)

    return attend, (z, src, dst)


CASES = {
    f"{reduce} {'weighted' if weighted else 'plain'} {width}": (multiply, reduce, weighted, width)
    for reduce in ("sum", "mean", "max")
    for weighted in (True, False)
    for width in (5, 64, 200)
}
CASES |= {f"sddmm {heads} {width}": (products, heads, width) for heads, width in ((1, 5), (1, 64), (3, 40))}
CASES |= {f"softmax {heads}": (softmax, heads) for heads in (1, 3)}
CASES |= {f"gat {heads} {width}": (attention, heads, width) for heads, width in ((1, 5), (2, 64))}


@pytest.fixture(autouse=True)
def _threads_as_before():
    before = torch.get_num_threads()
    yield
    torch.set_num_threads(before)


@pytest.mark.parametrize("case", CASES)
def test_results_are_bit_identical(case):
    make, *settings = CASES[case]
    call, inputs = make(*settings)
    runs = []
    for threads in (1, 2, 3):
        torch.set_num_threads(threads)
        out = call()
        runs.append((out.detach(), *torch.autograd.grad(out, inputs, torch.ones_like(out) / 3)))
    assert all(torch.equal(one, other) for run in runs[1:] for one, other in zip(runs[0], run, strict=True))
