"""Least time of a call: repeated until it gets no faster, of several forms the fastest."""

import pytest

from harness.measure import best


@pytest.fixture
def clock(monkeypatch):
    """A clock that only the timed calls move."""
    now = [0.0]
    monkeypatch.setattr(best.time, "perf_counter", lambda: now[0])

    def taking(durations):
        """A call that takes these seconds in turn, and the last of them from then on."""
        left = list(durations)
        return lambda: now.__setitem__(0, now[0] + (left.pop(0) if len(left) > 1 else left[0]))

    return taking


def test_the_preparation_of_a_call_is_not_timed(clock):
    call, before = clock([1]), clock([8])
    assert best.best_of(call, 2, before=before) == 1


def test_a_call_is_repeated_until_it_gets_no_faster(clock):
    slow_start = [0.01] * 5 + [0.008] * 9 + [0.004] + [0.006]
    assert best.stable_best([clock(slow_start)]) == pytest.approx(0.004)


def test_the_fastest_form_counts_and_a_slow_one_ends_early(clock):
    calls = []
    slow = clock([0.5])
    forms = [clock([0.003]), lambda: calls.append(slow()), clock([0.002])]
    assert best.stable_best(forms) == pytest.approx(0.002)
    assert len(calls) == 2  # one that does not count, and one


def test_without_a_form_there_is_no_bound():
    assert best.stable_best([]) == float("inf")
