"""Changes between folders: processes are the unit, cells judged together err together, doubt is said."""

from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.compare.between_folders import change_of, change_of_seeds, different, judge_together
from tests.harness.compare.noise import Floats, folder_seconds

TRIALS = 1000
LOGS = st.lists(st.floats(-3.0, 3.0), min_size=2, max_size=8)


def verdicts_on(random: np.random.Generator, processes: int, sigma: float, factor: float, groups: int = 1) -> list[str]:
    """Verdicts on all cells of two folders with groups of three; the first cell of B takes ``factor`` times as long."""
    changes = []
    for group in range(groups):
        a = folder_seconds(random, processes, sigma, [1.0, 2.0, 0.5])
        b = folder_seconds(random, processes, sigma, [factor if group == 0 else 1.0, 2.0, 0.5])
        # The first cell is ours; the code of the two beside it has not changed, so each is measured against the other.
        for cell, beside in ((0, (1, 2)), (1, (2,)), (2, (1,))):
            changes.append(change_of(logarithms(a, cell, beside), logarithms(b, cell, beside)))
    return [verdict for _, verdict, _ in judge_together(changes, 1.05)]


def logarithms(seconds: list[Floats], cell: int, beside: tuple[int, ...]) -> list[float]:
    """Logarithms of a cell's processes over those of the cells beside it."""
    return list(np.log(seconds[cell]) - np.mean([np.log(seconds[other]) for other in beside], axis=0))


@pytest.mark.parametrize(("processes", "sigma", "groups"), [(5, 0.05, 1), (5, 0.08, 1), (3, 0.02, 1), (5, 0.065, 8)])
def test_fewer_than_1_in_40_identical_folders_have_a_false_verdict(processes: int, sigma: float, groups: int) -> None:
    random = np.random.default_rng(1)
    trials = TRIALS if groups == 1 else TRIALS // 5
    false = [{"slower", "faster"} & set(verdicts_on(random, processes, sigma, 1.0, groups)) for _ in range(trials)]
    assert sum(map(bool, false)) <= trials / 40


@pytest.mark.parametrize(("processes", "sigma"), [(5, 0.015), (18, 0.05), (40, 0.08)])
def test_enough_processes_find_a_tenth_in_9_of_10(processes: int, sigma: float) -> None:
    random = np.random.default_rng(2)
    verdicts = Counter(verdicts_on(random, processes, sigma, 1.1)[0] for _ in range(TRIALS))
    assert verdicts["slower"] >= 0.9 * TRIALS, verdicts


@pytest.mark.parametrize(("processes", "sigma"), [(3, 0.05), (5, 0.08), (10, 0.05)])
def test_with_too_few_processes_a_tenth_is_undecided_and_hardly_ever_missed(processes: int, sigma: float) -> None:
    random = np.random.default_rng(3)
    verdicts = Counter(verdicts_on(random, processes, sigma, 1.1)[0] for _ in range(TRIALS))
    assert verdicts["not significant"] + verdicts["faster"] <= TRIALS / 40, verdicts
    assert verdicts["undecided"] > 0


@given(LOGS, LOGS, st.floats(-1.0, 1.0))
def test_what_both_folders_share_cancels(a: list[float], b: list[float], shift: float) -> None:
    plain, moved = change_of(a, b), change_of([x + shift for x in a], [x + shift for x in b])
    assert (moved.mean, moved.error) == pytest.approx((plain.mean, plain.error), abs=1e-9)


def test_what_differs_between_seeds_is_no_error() -> None:
    """Seeds 0 and 1 take 1 and 1.5 s, and both a fifth longer in B."""
    noise = np.array([-0.01, 0.0, 0.01])
    seeds = [(noise + start, noise + start + np.log(1.2)) for start in (0.0, np.log(1.5))]
    ((factor, verdict, _),) = judge_together([change_of_seeds(seeds)], 1.05)
    assert verdict == "slower" and factor.value == pytest.approx(1.2) and factor.n == 6
    assert factor.high / factor.low < 1.1


def test_seeds_of_unequal_numbers_of_processes_count_alike() -> None:
    """Nothing changed: A has more processes of the fast seed, B of the slow one."""
    fast, slow = [0.0, 0.01, -0.01, 0.02, -0.02], [0.5]
    ((factor, verdict, _),) = judge_together([change_of_seeds([(fast, fast[:1]), (slow, slow * 5)])], 1.05)
    assert verdict == "not significant" and factor.value == pytest.approx(1.0)


def test_seeds_of_one_process_each_are_pairs() -> None:
    seeds = [([start], [start + 0.2 + noise]) for start, noise in ((0.0, 0.001), (0.5, -0.001), (1.0, 0.0))]
    ((factor, verdict, _),) = judge_together([change_of_seeds(seeds)], 1.05)
    assert verdict == "slower" and factor.n == 3


def test_one_process_of_each_decides_nothing() -> None:
    ((factor, verdict, reason),) = judge_together([change_of([0.0], [3.0])], 1.05)
    assert verdict == "undecided" and "one process" in reason
    assert (factor.low, factor.high, factor.n) == (0.0, np.inf, 1)


def test_doubt_says_how_many_processes_would_decide() -> None:
    ((_, verdict, reason),) = judge_together([change_of([0.0, 0.1, -0.1], [0.02, 0.1, -0.08])], 1.05)
    assert verdict == "undecided" and "processes of each would decide" in reason


def test_one_cell_among_many_that_looks_different_by_chance_is_not_called_so() -> None:
    random = np.random.default_rng(5)
    same = [change_of(random.normal(0, 0.01, 5), random.normal(0, 0.01, 5)) for _ in range(200)]
    near = change_of([0.0, 0.05, -0.05], [0.2, 0.15, 0.25])
    assert different([near]) == [True]
    assert not different([near, *same])[0]
    assert judge_together([near, *same], 1.05)[0][1:2] == ("undecided",)


def test_equal_times_are_no_change_and_equal_changes_are_certain() -> None:
    ((_, same, _),) = judge_together([change_of([0.0, 0.0], [0.0, 0.0])], 1.05)
    ((_, slower, _),) = judge_together([change_of([0.0, 0.0], [0.3, 0.3])], 1.05)
    assert (same, slower) == ("not significant", "slower")
