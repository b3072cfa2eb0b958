"""Pairs of runs: an exact interval, few looks, and the promised error rates on a noisy machine."""

from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import wilcoxon

from harness.compare.signed_ranks import LOOK_ERROR, SequentialRule, factor_of_pairs
from tests.harness.compare.noise import pair_ratios

TRIALS = 1000
RATIOS = st.lists(st.floats(0.2, 5.0), min_size=8, max_size=20)


def verdict_of(random: np.random.Generator, sigma: float, factor: float, rule: SequentialRule) -> tuple[str, int]:
    """The verdict on one simulated pair of versions and the number of pairs that it took."""
    ratios = pair_ratios(random, rule.pairs, sigma, factor)
    for count in range(1, rule.pairs + 1):
        if judgement := rule.verdict(ratios[:count]):
            return judgement[1], judgement[0].n
    raise AssertionError("no verdict after the last look")


@pytest.mark.parametrize("sigma", [0.01, 0.05, 0.065, 0.08])
def test_fewer_than_1_in_40_identical_versions_are_called_different(sigma: float) -> None:
    random, rule = np.random.default_rng(1), SequentialRule()
    verdicts = Counter(verdict_of(random, sigma, 1.0, rule)[0] for _ in range(TRIALS))
    assert verdicts["slower"] + verdicts["faster"] <= TRIALS / 40, verdicts


@pytest.mark.parametrize("sigma", [0.01, 0.05, 0.065, 0.08])
def test_9_in_10_versions_that_are_a_tenth_slower_are_found(sigma: float) -> None:
    random, rule = np.random.default_rng(2), SequentialRule()
    verdicts = Counter(verdict_of(random, sigma, 1.1, rule)[0] for _ in range(TRIALS))
    assert verdicts["slower"] >= 0.9 * TRIALS, verdicts
    assert not verdicts["faster"]


def test_a_quiet_machine_needs_few_pairs() -> None:
    random, rule = np.random.default_rng(3), SequentialRule()
    counts = [verdict_of(random, 0.01, factor, rule)[1] for factor in (1.0, 1.1) for _ in range(50)]
    assert np.mean(counts) < 10


@pytest.mark.parametrize(("pairs", "cells", "fewest"), [(8, 1, None), (8, 2, 10), (10, 5, 12), (32, 1000, None)])
def test_too_few_pairs_for_a_verdict_on_so_many_cells_are_refused(pairs: int, cells: int, fewest: int | None) -> None:
    rule = SequentialRule(pairs)
    if fewest is None:
        rule.check(cells)
        return
    with pytest.raises(ValueError, match=f"cannot tell {cells} cells apart from chance: give at least {fewest},"):
        rule.check(cells)


def test_several_cells_share_the_error() -> None:
    """A run of six cells, all identical, is a false alarm as rarely as one cell."""
    random, rule, cells = np.random.default_rng(4), SequentialRule(), 6
    false = 0
    for _ in range(TRIALS // 4):
        series = [pair_ratios(random, rule.pairs, 0.065, 1.0) for _ in range(cells)]
        verdicts = [
            next(verdict[1] for look in rule.looks if (verdict := rule.verdict(ratios[:look], cells)))
            for ratios in series
        ]
        false += bool({"slower", "faster"} & set(verdicts))
    assert false <= TRIALS / 4 / 40


@given(RATIOS, st.sampled_from([0.008, 0.05, 0.3]))
def test_the_interval_leaves_1_out_where_the_exact_test_rejects(ratios: list[float], error: float) -> None:
    logs = np.abs(np.log(ratios))
    if len(set(logs)) < len(logs) or not logs.all():
        return  # scipy's exact test knows no ties
    factor = factor_of_pairs(ratios, error)
    chance = wilcoxon(np.log(ratios), method="exact").pvalue
    assert (factor.low > 1 or factor.high < 1) == (chance <= error)


@given(RATIOS)
def test_exchanging_the_versions_inverts_the_factor(ratios: list[float]) -> None:
    there, back = (factor_of_pairs(values, 0.05) for values in (ratios, [1 / ratio for ratio in ratios]))
    assert (back.low, back.value, back.high) == pytest.approx((1 / there.high, 1 / there.value, 1 / there.low))
    assert there.low <= there.value <= there.high


def test_a_disturbed_pair_moves_the_factor_little() -> None:
    ratios = [1.0 + 0.001 * number for number in range(16)]
    assert factor_of_pairs([*ratios[1:], 30.0], LOOK_ERROR).value == pytest.approx(1.008, abs=0.002)


def test_too_few_pairs_have_an_interval_without_ends() -> None:
    factor = factor_of_pairs([1.5] * 7, LOOK_ERROR)
    assert (factor.low, factor.high) == (0.0, np.inf)


@pytest.mark.parametrize(("pairs", "looks"), [(32, (8, 16, 32)), (8, (8,)), (10, (10,)), (64, (16, 32, 64))])
def test_there_are_at_most_three_looks_with_each_version_first_equally_often(pairs: int, looks: tuple[int]) -> None:
    rule = SequentialRule(pairs)
    assert rule.looks == looks
    assert all(rule.verdict([1.5] * count) is None for count in range(pairs) if count not in looks)


@pytest.mark.parametrize(("pairs", "threshold"), [(7, 1.05), (9, 1.05), (6, 1.05), (10**6, 1.05), (32, 1.0)])
def test_what_allows_no_verdict_is_refused(pairs: int, threshold: float) -> None:
    with pytest.raises(ValueError, match="not allowed: give"):
        SequentialRule(pairs, threshold)


def test_what_is_open_after_the_last_look_stays_undecided() -> None:
    wild = [0.5, 2.0] * 16
    judgement = SequentialRule().verdict(wild)
    assert judgement is not None and judgement[1] == "undecided"
    assert SequentialRule().verdict(wild[:16]) is None
