"""What GraphFlat's rounds share: distinct values, and work in threads that comes back in order."""

import threading

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from backends.agl.flat.local import in_threads
from backends.kernels.sampling import distinct


@given(st.lists(st.integers(-(2**62), 2**62)))
def test_distinct_values_are_those_of_numpy(values):
    held = np.array(values, dtype=np.int64)
    assert distinct(held).tolist() == np.unique(held).tolist()


@given(count=st.integers(0, 20), threads=st.integers(1, 5))
def test_results_come_in_order_from_no_more_threads_than_asked(count, threads):
    used = set()

    def work(number: int) -> int:
        used.add(threading.get_ident())
        return number * number

    assert list(in_threads(work, range(count), threads)) == [number**2 for number in range(count)]
    assert len(used) <= threads


@pytest.mark.parametrize("threads", [1, 3])
def test_nothing_starts_after_a_failure(threads):
    started = []

    def work(number: int) -> int:
        started.append(number)
        if number == 2:
            raise OSError("the disk is full")
        return number

    with pytest.raises(OSError, match="full"):
        list(in_threads(work, range(100), threads))
    assert len(started) <= 2 + 2 * threads
