"""Shapes of samples: two modes, drift and outliers are named, noise of one mode is not."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.store.shape import doubts

SIZES = ((1, 30), (5, 4))


def names(samples):
    return [doubt.name for doubt in doubts(list(samples))]


@pytest.mark.parametrize("size", SIZES, ids=str)
def test_noise_of_one_mode_is_named_in_fewer_than_one_of_a_hundred_cases(size):
    random = np.random.default_rng(1)
    named = sum(bool(names(np.exp(random.normal(0.0, 0.1, size)))) for _ in range(2000))
    assert named < 20


@pytest.mark.parametrize("size", [(1, 20), (5, 4)], ids=str)
@pytest.mark.parametrize("share", [0.4, 0.5, 0.6])
def test_two_modes_are_named_at_nearly_any_mixture_near_half(size, share):
    random = np.random.default_rng(2)
    named = 0
    for _ in range(100):
        fast = random.random(size) < share
        named += "two modes" in names(np.where(fast, 0.23, 0.98) * np.exp(random.normal(0.0, 0.05, size)))
    assert named >= 95


@given(st.integers(2, 9), st.integers(1, 6), st.floats(1e-6, 1e3))
@settings(max_examples=50)
def test_processes_in_two_modes_are_named(fast, samples, unit):
    random = np.random.default_rng(3)
    centres = np.array([0.23] * fast + [0.98] * fast)[:, None] * unit
    assert "two modes" in names(centres * np.exp(random.normal(0.0, 0.02, (2 * fast, samples))))


@given(st.lists(st.lists(st.floats(0.97, 1.03), min_size=1, max_size=10), min_size=1, max_size=3))
def test_few_processes_with_small_scatter_have_no_modes_and_no_drift(processes):
    assert not {"two modes", "drift"} & set(names(processes))


def test_one_far_sample_is_no_mode_and_no_doubt():
    assert names([[1.0, 1.01, 0.99, 1.02, 5.0]]) == []
    assert names([[1.0, 1.0, 5.0]]) == []
    assert names([[1.0], [1.01], [0.99], [1.02], [5.0]]) == []


def test_the_sentence_has_both_modes_and_what_to_try():
    (doubt,) = doubts([[0.23] * 8, [0.98] * 7])
    assert "0.23 s (8 samples)" in str(doubt) and "0.98 s (7)" in str(doubt) and "measure.processes" in doubt.remedy


@pytest.mark.parametrize("slope", [0.3, -0.3])
def test_drift_is_named_with_its_direction(slope):
    random = np.random.default_rng(4)
    inside = [(1 + slope * np.linspace(0, 1, 8)) * np.exp(random.normal(0.0, 0.01, 8)) for _ in range(5)]
    (doubt,) = doubts(inside)
    assert doubt.name == "drift" and f"{slope:+}"[0] in doubt.sentence
    between = [
        [(1 + slope * place) * noise]
        for place, noise in zip(np.linspace(0, 1, 20), random.normal(1, 0.01, 20), strict=True)
    ]
    assert "drift" in names(between)
    assert "drift" not in names([1 + 0.04 * np.linspace(0, 1, 30)])


def test_many_outliers_are_named():
    random = np.random.default_rng(5)
    samples = random.normal(1.0, 0.01, 30)
    samples[:9] = np.linspace(1.2, 3.0, 9)
    assert "outliers" in names([random.permutation(samples)])
    assert names([[1.0] * 30]) == []


def test_processes_of_which_half_are_far_from_the_median_are_scatter():
    assert names([[0.27], [0.90], [0.62], [0.45], [0.94]]) == ["scatter"]
    assert names([[seconds] for seconds in np.geomspace(0.3, 1.2, 11)]) == ["scatter"]


@pytest.mark.parametrize("far", [[0.1], [0.1, 5.0]], ids=["one", "two"])
def test_a_minority_of_far_processes_is_no_scatter(far):
    assert "scatter" not in names([[seconds] for seconds in (0.50, 0.52, 0.55, 0.57, 0.60, *far)])
