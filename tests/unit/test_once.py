"""What a group's cells share: found by the first, known to the next, another graph is something else."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from datasets.csr import Csr
from harness.measure import shared as once


@pytest.fixture(autouse=True)
def nothing_known():
    once.forget()
    yield
    once.forget()


def operand(indices, columns=9, **named):
    csr = Csr(np.array([0, len(indices)], dtype=np.int32), np.array(indices, dtype=np.int32), (1, columns))
    return {"name": "forward", "width": 4, "itemsize": 4, "count": 1, "csr": csr} | named


def test_the_first_finds_and_the_others_are_told():
    assert once.found("a", lambda: [1, 2.5]) == [1, 2.5]
    told = once.known()
    once.forget()
    assert once.known() == {}
    once.learn(told)
    assert once.found("a", lambda: 0) == [1, 2.5]
    assert once.found("b", lambda: 0) == 0


@given(st.lists(st.integers(0, 8)), st.lists(st.integers(0, 8)))
def test_equal_edges_and_only_these_have_one_digest(one, other):
    assert (once.digest_of([operand(one)]) == once.digest_of([operand(other)])) == (one == other)


@pytest.mark.parametrize(
    "changed", [{"name": "backward"}, {"width": 5}, {"itemsize": 2}, {"count": 2}, {"columns": 10}]
)
def test_what_the_model_depends_on_is_in_the_digest(changed):
    assert once.digest_of([operand([1, 2], **changed)]) != once.digest_of([operand([1, 2])])


def test_the_width_of_an_index_is_not():
    values = [0, 3, 2**31 - 1]
    assert once.digest(np.array(values, dtype=np.int32)) == once.digest(np.array(values, dtype=np.int64))
    assert once.digest(np.array([2**31])) != once.digest(np.array([-(2**31)]))
