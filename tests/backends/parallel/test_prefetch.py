"""The prefetching threads: order of the batches, and exceptions of their producer."""

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from backends.parallel.prefetch import prefetched
from harness.measure.clock import Clock


@given(st.integers(0, 9), st.integers(1, 4))
def test_batches_keep_their_order(count, loaders):
    clock = Clock()

    def squared(number):
        time.sleep(1e-3 * (number % 2))  # the next batch is ready first
        return number**2

    squares = [number**2 for number in range(count)]
    assert list(prefetched(squared, iter(range(count)), clock, loaders)) == squares
    assert set(clock.seconds) == {"load"}


@pytest.mark.parametrize("loaders", [1, 2])
def test_an_exception_is_raised_after_the_batches_before_it(loaders):
    def failing():
        yield 1
        raise OSError("no disk")

    batches = prefetched(int, failing(), Clock(), loaders)
    assert next(batches) == 1
    with pytest.raises(OSError, match="no disk"):
        next(batches)
