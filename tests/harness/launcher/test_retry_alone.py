"""A second try of cells that ran out of memory: only beside others, only once, in order."""

from hypothesis import given
from hypothesis import strategies as st

from harness.launcher.failure import CellFailed
from harness.launcher.retry_alone import RetryAlone
from harness.store.statuses import STATUSES

FAILURES = st.lists(st.tuples(st.integers(0, 4), st.sampled_from(STATUSES), st.integers(0, 3)))


@given(FAILURES)
def test_a_cell_is_tried_once_more_when_it_ran_out_of_memory_beside_others(failures) -> None:
    retry, expected = RetryAlone(), []
    for cell, status, others in failures:
        again = status == "oom" and others > 0 and cell not in expected
        expected += [cell] * again
        assert retry.takes(cell, CellFailed(status, "a message"), others) == again
    assert retry.waiting == expected


def test_killed_by_the_kernel_is_out_of_memory() -> None:
    from harness.launcher.failure import status_of_exit

    assert RetryAlone().takes("a", CellFailed(*status_of_exit(-9, "")), 1)
