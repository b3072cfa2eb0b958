"""Turns of a group's cells: their calls, and how many samples a process takes."""

from hypothesis import given
from hypothesis import strategies as st

from harness.launcher.turns import Budget, calls_of_a_turn, shuffled

LIMITS = st.builds(
    lambda least, more, seconds, processes: {
        "min_samples": least,
        "max_samples": least + more,
        "max_seconds": seconds,
        "processes": processes,
    },
    st.integers(1, 20),
    st.integers(0, 30),
    st.floats(0.1, 100.0),
    st.integers(1, 12),
)
SECONDS = st.floats(1e-7, 100.0)


def take(budget: Budget, turn: float) -> int:
    while not budget.done:
        budget.seconds.append(turn / 2)
        budget.used_seconds += turn
    return len(budget.seconds)


@given(LIMITS, SECONDS)
def test_processes_share_the_samples_and_the_seconds_of_their_cell(limits, turn):
    budget = Budget(limits)
    expected = budget.expected(turn)
    taken = take(budget, turn)
    assert 1 <= budget.least <= taken <= budget.most
    if budget.least < taken < budget.most:
        turns_that_fit = limits["max_seconds"] / limits["processes"] / turn
        assert taken - 1.001 < turns_that_fit <= taken * 1.001
    assert abs(taken - expected) <= 1
    together = taken * limits["processes"]
    assert limits["min_samples"] <= together < limits["max_samples"] + limits["processes"]


@given(LIMITS, SECONDS)
def test_disturbed_samples_are_repeated_within_bounds_of_number_and_time(limits, turn):
    budget = Budget(limits)
    while not budget.accepts(disturbed=True):
        budget.disturbed += 1
        budget.used_seconds += turn
    assert budget.disturbed <= budget.most
    assert budget.disturbed < budget.longest / turn + 1.001
    assert budget.accepts(disturbed=False)


@given(st.lists(SECONDS, min_size=1, max_size=8), st.floats(0, 1), st.floats(0, 10))
def test_calls_of_a_turn_last_long_enough_for_the_shortest_cell_and_not_too_long_for_the_longest(warm, repeat, turn):
    calls = calls_of_a_turn(warm, {"repeat_seconds": repeat, "turn_seconds": turn})
    assert calls >= 1
    assert calls == 1 or (calls + 1) * max(warm) <= turn * 1.001
    assert calls * min(warm) >= repeat * 0.999 or (calls + 2) * max(warm) > turn * 0.999
    assert calls == 1 or (calls - 1) * min(warm) <= repeat


def test_without_a_warm_call_one_is_counted():
    limits = {"repeat_seconds": 0.05, "turn_seconds": 2.0}
    assert calls_of_a_turn([], limits) == calls_of_a_turn([0.0, 0.0], limits) == 1


@given(st.lists(st.integers(), unique=True, max_size=12), st.text(), st.integers(0, 1000))
def test_a_round_is_a_repeatable_permutation(cells, seed, number):
    assert sorted(shuffled(cells, seed, number)) == sorted(cells)
    assert shuffled(cells, seed, number) == shuffled(cells, seed, number)


def test_rounds_and_seeds_differ():
    orders = {tuple(shuffled(range(8), seed, number)) for seed in ("a", "b") for number in range(10)}
    assert len(orders) == 20
