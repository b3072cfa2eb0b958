"""The prefetching thread: order of the batches, and exceptions of their producer."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from backends.parallel.prefetch import prefetched
from harness.measure.clock import Clock


@given(st.integers(0, 9))
def test_batches_keep_their_order(count):
    clock = Clock()
    assert list(prefetched(iter(range(1, count + 1)), clock)) == list(range(1, count + 1))
    assert set(clock.seconds) == {"load"}


def test_an_exception_is_raised_after_the_batches_before_it():
    def failing():
        yield 1
        raise OSError("no disk")

    batches = prefetched(failing(), Clock())
    assert next(batches) == 1
    with pytest.raises(OSError, match="no disk"):
        next(batches)
