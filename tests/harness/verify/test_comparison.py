"""Multiples of the deviation that rounding causes: degenerate tensors, tries, long sums, the noisy arithmetic."""

from dataclasses import replace
from itertools import permutations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from backends.contract import Unsupported
from backends.model import ModelSpec, initial_state
from backends.reference import definition
from backends.reference.arithmetic import Arithmetic, NoisyArithmetic, partial_sums
from harness.verify.comparison import ALLOWED, INFINITE, UNITS, compare, error_of, multiple_of
from harness.verify.graphs import small_graph

UNIT = UNITS["float32"]


class Flipping:
    """Float32 as an engine, with a wrong gradient or forward pass in the given tries."""

    def __init__(self, wrong_in=(), forward_wrong_in=()):
        self.graph = small_graph("multiclass", 4, weighted=False)
        self.spec = ModelSpec("gcn", 2, self.graph.width, 8, 4)
        self.targets = self.graph.nodes_of("train")
        self.tries, self.wrong_in, self.forward_wrong_in = -1, wrong_in, forward_wrong_in

    def definition(self, seed, arithmetic):
        state = initial_state(self.spec, seed)
        return definition.loss_and_gradients(self.graph, self.spec, state, self.targets, 0, arithmetic)

    def answer(self, seed):
        self.tries += 1
        logits, loss, gradients = self.definition(seed, Arithmetic(torch.float32))
        if self.tries in self.wrong_in:
            gradients["layers.0.bias"] = gradients["layers.0.bias"] * np.float32(1.0001)
        return logits * np.float32(1.0001 if self.tries in self.forward_wrong_in else 1.0), loss, gradients


@pytest.mark.parametrize(
    ("wrong_in", "tries", "wrong"),
    [((), 1, False), ((0,), 2, False), ((0, 1), 3, False), ((0, 1, 2), 3, True)],
)
def test_a_gradient_is_wrong_only_if_it_is_wrong_from_three_states(wrong_in, tries, wrong):
    parity = compare(Flipping(wrong_in), 0, UNIT)
    assert (parity["tries"], parity["wrong"]) == (tries, wrong)
    assert (parity["gradient"] > ALLOWED) == wrong
    assert parity["tensor"] == "layers.0.bias" or not wrong


def test_a_wrong_forward_pass_is_wrong_at_once():
    parity = compare(Flipping((), forward_wrong_in=(0,)), 0, UNIT)
    assert (parity["tries"], parity["wrong"], parity["tensor"]) == (1, True, "logits")
    assert parity["forward"] > ALLOWED


@pytest.mark.parametrize("name", ["tf32", "bf16"])
def test_lower_precisions_are_allowed_their_own_errors(name):
    parity = compare(Flipping((0, 1, 2), forward_wrong_in=(0, 1, 2)), 0, UNITS[name])
    assert not parity["wrong"] and parity["tries"] == 1


def test_a_tensor_that_rounding_does_not_change_must_be_exact():
    assert multiple_of(0.0, 0.0) == 0.0 and multiple_of(1e-30, 0.0) == INFINITE and multiple_of(3.0, 2.0) == 1.5


@pytest.mark.parametrize("tensor", [np.zeros((2, 3)), np.full((2, 2), np.nan), np.full((2, 2), np.inf), None])
def test_other_shapes_and_non_finite_numbers_are_wrong(tensor):
    assert error_of(tensor, np.ones((2, 2))) == INFINITE == multiple_of(INFINITE, 1.0)


@given(st.lists(st.floats(-5, 5), min_size=1, max_size=5))
def test_partial_sums_are_the_mean_over_all_orders(terms):
    orders = np.array(list(permutations(terms)))
    expected = np.square(np.cumsum(orders, axis=1)[:, 1:]).sum(1).mean()
    sums = torch.tensor([sum(terms), sum(term**2 for term in terms), len(terms)], dtype=torch.float64)
    assert float(partial_sums(*sums)) == pytest.approx(expected, abs=1e-9)


@pytest.mark.parametrize("kind", ["signs", "positive", "equal"])
@pytest.mark.parametrize("length", [10, 10_000, 1_000_000])
def test_the_error_of_a_naive_sum_stays_below_the_bound_at_any_length(kind, length):
    random = np.random.default_rng(1)
    terms = {
        "signs": random.standard_normal((length, 4)),
        "positive": random.random((length, 4)),
        "equal": np.full((length, 4), 0.1),
    }[kind].astype(np.float32)
    exact = terms.astype(np.float64).sum(0)
    error = np.abs(np.cumsum(terms, axis=0, dtype=np.float32)[-1] - exact).max()
    values, index = torch.from_numpy(terms.astype(np.float64)), torch.zeros(length, dtype=torch.int64)
    noisy = [NoisyArithmetic(UNIT, seed, [], {}).sum(values, index, 1).numpy() for seed in range(4)]
    single = Arithmetic(torch.float32).sum(torch.from_numpy(terms), index, 1).numpy()
    deviation = max(np.abs(run - exact).max() for run in (*noisy, single))
    assert 0 < error <= ALLOWED * deviation
    if kind != "equal":  # of which each rounding error has the same sign
        assert deviation < 1e-7 * np.abs(terms).sum() * length**0.5


@pytest.mark.parametrize("model", ["gcn", "sage", "gat"])
def test_without_errors_the_noisy_arithmetic_is_the_exact_one(model):
    graph = small_graph("multilabel", 4, weighted=model == "gcn")
    spec = ModelSpec(model, 2, graph.width, 4, 4, heads=2, output_heads=2, head="linear")
    arguments = graph, spec, initial_state(spec, 0), graph.nodes_of("train"), 0
    exact = Arithmetic()
    logits, loss, gradients = definition.loss_and_gradients(*arguments, exact)
    noisy = definition.loss_and_gradients(*arguments, NoisyArithmetic(0.0, 0, exact.sides, {}))
    np.testing.assert_allclose(noisy[0], logits, rtol=1e-12, atol=1e-14)
    assert noisy[1] == pytest.approx(loss, rel=1e-12)
    for name, gradient in gradients.items():
        np.testing.assert_allclose(noisy[2][name], gradient, rtol=1e-10, atol=1e-14)


def test_the_binary_cross_entropy_is_torchs_also_where_a_logit_is_zero():
    z = torch.tensor([[0.0, -40.0, 3.0], [0.0, 40.0, -2.0]], dtype=torch.float64, requires_grad=True)
    labels = np.array([[0, 1, 1], [1, 1, -1]])
    (gradient,) = torch.autograd.grad(definition.loss(z, labels), z)
    known = torch.from_numpy(labels >= 0)
    target = torch.from_numpy(labels).double()
    expected = torch.nn.functional.binary_cross_entropy_with_logits(z[known], target[known])
    assert float(definition.loss(z, labels)) == pytest.approx(float(expected), rel=1e-12)
    np.testing.assert_allclose(gradient, torch.autograd.grad(expected, z)[0], atol=1e-15)


class Overflowing(Flipping):
    """Features whose squares float32 does not hold."""

    def __init__(self):
        super().__init__()
        self.graph = replace(self.graph, features=self.graph.features * np.float32(1e38))


def test_a_definition_that_overflows_allows_no_error_but_checks_nothing():
    with np.errstate(all="ignore"), pytest.raises(Unsupported, match=r"logits.*scale the features"):
        compare(Overflowing(), 0, UNIT)
