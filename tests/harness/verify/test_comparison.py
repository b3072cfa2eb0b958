"""Comparison of tensors: relative errors by tensor and layer, gradients retried from other states."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from backends.model import ModelSpec, initial_state
from backends.reference import definition
from harness.verify.comparison import FORWARD, GRADIENT, compare, error_of, gradient_errors
from harness.verify.graphs import small_graph


class Flipping:
    """The definition as an engine, with a wrong gradient or forward pass in the given tries."""

    def __init__(self, wrong_in, forward_wrong_in=()):
        self.graph = small_graph("multiclass", 4, weighted=False)
        self.spec = ModelSpec("gcn", 2, self.graph.width, 8, 4)
        self.targets = self.graph.nodes_of("train")
        self.tries, self.wrong_in, self.forward_wrong_in = -1, wrong_in, forward_wrong_in

    def definition(self, seed):
        return definition.loss_and_gradients(self.graph, self.spec, initial_state(self.spec, seed), self.targets)

    def answer(self, seed):
        self.tries += 1
        logits, loss, gradients = self.definition(seed)
        if self.tries in self.wrong_in:
            gradients["layers.0.bias"] = gradients["layers.0.bias"] + 1e-3
        return logits * (1.001 if self.tries in self.forward_wrong_in else 1.0), loss, gradients


def compared(subject):
    return compare(subject, 0, FORWARD["float32"], GRADIENT["float32"])


@pytest.mark.parametrize(
    ("wrong_in", "tries", "wrong"),
    [((), 1, False), ((0,), 2, False), ((0, 1), 3, False), ((0, 1, 2), 3, True)],
)
def test_a_gradient_is_wrong_only_if_it_is_wrong_from_three_states(wrong_in, tries, wrong):
    parity = compared(Flipping(wrong_in))
    assert (parity["tries"], parity["wrong"]) == (tries, wrong)
    assert parity["tensor"] == "layers.0.bias" or not wrong


def test_a_wrong_forward_pass_is_wrong_at_once():
    parity = compared(Flipping((), forward_wrong_in=(0,)))
    assert (parity["tries"], parity["wrong"], parity["tensor"]) == (1, True, "logits")


@given(st.floats(1e-6, 1e6), st.integers(0, 100))
def test_errors_do_not_depend_on_scale(scale, seed):
    random = np.random.default_rng(seed)
    exact = random.standard_normal((4, 3))
    tensor = exact * (1 + 1e-4 * random.standard_normal((4, 3)))
    assert error_of(tensor * scale, exact * scale) == pytest.approx(error_of(tensor, exact), rel=1e-6)


def test_small_tensors_are_measured_against_their_layer():
    exact = {"layers.0.weight": np.array([1.0]), "layers.0.bias": np.array([1e-9]), "layers.1.bias": np.array([1e-9])}
    errors = gradient_errors({name: value + 1e-9 for name, value in exact.items()}, exact)
    assert errors["layers.0.bias"] == pytest.approx(1e-6)
    assert errors["layers.1.bias"] == pytest.approx(1.0)


@pytest.mark.parametrize("tensor", [np.zeros((2, 3)), np.full((2, 2), np.nan), np.full((2, 2), np.inf)])
def test_other_shapes_and_non_finite_numbers_are_wrong(tensor):
    assert error_of(tensor, np.ones((2, 2))) > 1.0


def test_a_missing_gradient_is_wrong():
    assert gradient_errors({}, {"layers.0.weight": np.ones(2)})["layers.0.weight"] > 1.0
