"""Distinct values against numpy's."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from backends.kernels.sampling import distinct


@given(st.lists(st.integers(-(2**62), 2**62)))
def test_distinct_values_are_those_of_numpy(values):
    array = np.array(values, dtype=np.int64)
    assert distinct(array).tolist() == np.unique(array).tolist()
