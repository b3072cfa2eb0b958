"""Values that the cells of a group share: computed by the first, adopted by the next, per graph."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from datasets.csr import Csr
from harness.measure import shared_values
from harness.measure.shared_values import digest_of_arrays, digest_of_operands, get_or_compute


@pytest.fixture(autouse=True)
def no_values():
    shared_values.clear()
    yield
    shared_values.clear()


def operand(indices, columns=9, **named):
    csr = Csr(np.array([0, len(indices)], dtype=np.int32), np.array(indices, dtype=np.int32), (1, columns))
    return {"name": "forward", "width": 4, "itemsize": 4, "count": 1, "csr": csr} | named


def test_the_first_computes_and_the_others_adopt():
    assert get_or_compute("a", lambda: [1, 2.5]) == [1, 2.5]
    values = shared_values.snapshot()
    shared_values.clear()
    assert shared_values.snapshot() == {}
    shared_values.adopt(values)
    assert get_or_compute("a", lambda: 0) == [1, 2.5]
    assert get_or_compute("b", lambda: 0) == 0


@given(st.lists(st.integers(0, 8)), st.lists(st.integers(0, 8)))
def test_equal_edges_and_only_these_have_one_digest(one, other):
    assert (digest_of_operands([operand(one)]) == digest_of_operands([operand(other)])) == (one == other)


@pytest.mark.parametrize(
    "changed",
    [{"name": "backward"}, {"width": 5}, {"itemsize": 2}, {"count": 2}, {"columns": 10}, {"order": np.array([2, 1])}],
    ids=lambda changed: next(iter(changed)),
)
def test_the_digest_covers_everything_the_cache_model_reads(changed):
    assert digest_of_operands([operand([1, 2], **changed)]) != digest_of_operands([operand([1, 2])])


def test_the_digest_does_not_depend_on_the_width_of_an_index():
    values = [0, 3, 2**31 - 1]
    assert digest_of_arrays(np.array(values, dtype=np.int32)) == digest_of_arrays(np.array(values, dtype=np.int64))
    assert digest_of_arrays(np.array([2**31])) != digest_of_arrays(np.array([-(2**31)]))
