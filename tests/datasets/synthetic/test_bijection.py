"""Bijections of node ids: one to one, invertible, scattering."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from datasets.synthetic.bijection import Bijection


@given(count=st.integers(1, 3000), seed=st.integers(0, 2**40))
def test_a_bijection_is_one_to_one_and_inverts(count: int, seed: int) -> None:
    mapped = Bijection(seed, "test", count)
    images = mapped(np.arange(count))
    np.testing.assert_array_equal(np.sort(images), np.arange(count))
    np.testing.assert_array_equal(mapped.inverse(images), np.arange(count))


def test_a_bijection_scatters() -> None:
    images = Bijection(0, "test", 10_000)(np.arange(10_000))
    assert abs(np.corrcoef(np.arange(10_000), images)[0, 1]) < 0.05
    assert not np.array_equal(images, Bijection(1, "test", 10_000)(np.arange(10_000)))
