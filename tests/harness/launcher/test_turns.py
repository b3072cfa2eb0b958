"""Turns of a group's cells, and how many samples a cell takes."""

from hypothesis import given
from hypothesis import strategies as st

from harness.launcher.turns import Budget, shuffled

LIMITS = st.builds(
    lambda least, more, seconds: {"min_samples": least, "max_samples": least + more, "max_seconds": seconds},
    st.integers(1, 20),
    st.integers(0, 30),
    st.floats(0.1, 100.0),
)


@given(LIMITS, st.floats(0.001, 50.0))
def test_a_budget_ends_between_its_bounds(limits, seconds):
    budget = Budget(limits)
    while not budget.done:
        budget.seconds.append(seconds)
    taken = len(budget.seconds)
    assert limits["min_samples"] <= taken <= limits["max_samples"]
    if limits["min_samples"] < taken < limits["max_samples"]:
        assert sum(budget.seconds) >= limits["max_seconds"] > sum(budget.seconds[:-1])


@given(LIMITS, st.floats(0.001, 50.0), st.integers(1, 5))
def test_shares_of_a_budget_reach_the_least_number_together(limits, seconds, processes):
    taken = 0
    for _ in range(processes):
        budget = Budget(limits, 1.0 / processes)
        while not budget.done:
            budget.seconds.append(seconds)
        taken += len(budget.seconds)
    assert limits["min_samples"] <= taken <= limits["max_samples"] + processes


@given(LIMITS)
def test_disturbed_samples_are_repeated_a_bounded_number_of_times(limits):
    budget = Budget(limits)
    while not budget.accepts(disturbed=True):
        budget.disturbed += 1
    assert budget.disturbed == limits["max_samples"]
    assert budget.accepts(disturbed=False)


@given(st.lists(st.integers(), unique=True, max_size=12), st.text(), st.integers(0, 1000))
def test_a_round_is_a_repeatable_permutation(cells, seed, number):
    assert sorted(shuffled(cells, seed, number)) == sorted(cells)
    assert shuffled(cells, seed, number) == shuffled(cells, seed, number)


def test_rounds_and_seeds_differ():
    orders = {tuple(shuffled(range(8), seed, number)) for seed in ("a", "b") for number in range(10)}
    assert len(orders) == 20
