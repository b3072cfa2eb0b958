"""The power law keeps its mean and bound; noise has mean 0 and variance 1."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from datasets.synthetic.distributions import noise, power_law


@given(st.floats(1.1, 3), st.floats(1, 50), st.floats(60, 1e5))
def test_the_power_law_keeps_its_mean_and_bound(exponent: float, mean: float, high: float) -> None:
    steps = (np.arange(400_000) + 0.5) / 400_000
    drawn = power_law(steps, exponent, mean, high)
    assert drawn.max() <= high
    assert abs(drawn.mean() / mean - 1) < 0.03


def test_noise_is_centred_and_of_unit_variance() -> None:
    drawn = noise(3, "test", np.arange(2000), 33).astype(np.float64)
    assert drawn.shape == (2000, 33)
    assert abs(drawn.mean()) < 0.02 and abs(drawn.var() - 1) < 0.02
    assert abs((drawn**4).mean() - 3) < 0.5
    np.testing.assert_array_equal(noise(3, "test", np.arange(1500, 1600), 33), drawn[1500:1600].astype(np.float32))
