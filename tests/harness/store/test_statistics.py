"""Statistics: properties that hold for any samples."""

from math import comb

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from harness.store import statistics

SECONDS = st.floats(1e-6, 1e4)
SAMPLES = st.lists(SECONDS, min_size=1, max_size=40)
PROCESSES = st.lists(SAMPLES, min_size=1, max_size=6)


@given(PROCESSES)
def test_summary_counts_processes_and_names_the_kind_of_its_interval(processes: list[list[float]]) -> None:
    summary = statistics.summarize(processes)
    assert summary.n == len(processes)
    assert summary.kind == ("interval" if len(processes) >= 2 else "spread")
    assert (summary.coverage is None) == (len(processes) == 1)
    assert summary.median == pytest.approx(float(np.median([np.median(samples) for samples in processes])))
    assert summary.low <= summary.median * (1 + 1e-12) and summary.median <= summary.high * (1 + 1e-12)
    assert min(map(min, processes)) * 0.999 <= summary.low <= summary.high <= max(map(max, processes)) * 1.001


@given(PROCESSES, st.floats(0.01, 100))
def test_unit_does_not_matter(processes: list[list[float]], factor: float) -> None:
    scaled = statistics.summarize([[factor * value for value in samples] for samples in processes])
    expected = statistics.summarize(processes).scaled(factor)
    assert (scaled.median, scaled.low, scaled.high) == pytest.approx((expected.median, expected.low, expected.high))
    assert scaled.again == (None if expected.again is None else pytest.approx(expected.again))
    assert scaled.inverse().inverse().again == (None if scaled.again is None else pytest.approx(scaled.again))


@given(st.lists(SAMPLES, min_size=2, max_size=9))
def test_repeating_samples_adds_no_certainty(processes: list[list[float]]) -> None:
    assert statistics.summarize([samples * 3 for samples in processes]) == statistics.summarize(processes)


@pytest.mark.parametrize("count", range(2, 13))
def test_the_stated_coverage_is_what_simulation_finds(count: int) -> None:
    random, cases = np.random.default_rng(count), 2000
    intervals = [statistics.interval(random.lognormal(0.0, 0.3, count)) for _ in range(cases)]
    stated = intervals[0][2]
    share = np.mean([low <= 1.0 <= high for low, high, _ in intervals])
    assert share == pytest.approx(stated, abs=4 * np.sqrt(stated * (1 - stated) / cases))
    assert stated >= 0.95 or count < 6


def test_coverages_below_six_processes() -> None:
    stated = [statistics.interval(range(1, count + 1))[2] for count in range(2, 7)]
    assert stated == [0.5, 0.75, 0.875, 0.9375, 0.96875]
    assert statistics.interval(range(1, 10))[:2] == (2, 8)


@pytest.mark.parametrize("count", [6, 9, 20, 51])
def test_the_interval_is_the_narrowest_with_its_level(count: int) -> None:
    low, high, coverage = statistics.interval(range(count))
    assert coverage >= statistics.LEVEL and low + high == count - 1
    narrower = sum(comb(count, below) for below in range(int(low) + 2, count - int(low) - 1)) / 2**count
    assert narrower < statistics.LEVEL


def test_interval_narrows_with_more_processes() -> None:
    random = np.random.default_rng(3)
    widths = []
    for count in (5, 20, 80):
        ends = [statistics.interval(random.normal(10, 1, count)) for _ in range(20)]
        widths.append(np.mean([high - low for low, high, _ in ends]))
    assert widths[0] > widths[1] > widths[2]


@given(st.dictionaries(st.sampled_from("abcdef"), SAMPLES), st.dictionaries(st.sampled_from("abcdef"), SAMPLES))
def test_ratio_exists_only_inside_a_group(above: dict[str, list[float]], below: dict[str, list[float]]) -> None:
    ratio = statistics.paired_ratio(above, below)
    shared = set(above) & set(below)
    assert (ratio is None) == (not shared)
    if ratio is not None:
        assert ratio.n == len(shared)
        expected = [np.median(above[group]) / np.median(below[group]) for group in shared]
        assert ratio.median == pytest.approx(float(np.median(expected)))


@given(st.dictionaries(st.sampled_from("abcd"), SAMPLES, min_size=1))
def test_ratio_of_a_row_to_itself_is_one(samples: dict[str, list[float]]) -> None:
    ratio = statistics.paired_ratio(samples, samples)
    assert ratio is not None
    assert ratio.median == 1
    assert ratio.low <= 1.000001
    assert ratio.high >= 0.999999


def test_pairing_removes_drift_between_groups() -> None:
    drift = {"a": 1.0, "b": 3.0, "c": 9.0, "d": 27.0}
    slow = {group: [1.2 * scale] * 5 for group, scale in drift.items()}
    fast = {group: [1.0 * scale] * 5 for group, scale in drift.items()}
    ratio = statistics.paired_ratio(slow, fast)
    assert ratio is not None
    assert (ratio.low, ratio.median, ratio.high) == pytest.approx((1.2, 1.2, 1.2))


@given(st.lists(SECONDS, min_size=1, max_size=20))
def test_geometric_mean_of_inverses_is_the_inverse(values: list[float]) -> None:
    inverse = statistics.geometric_mean([1 / value for value in values])
    assert statistics.geometric_mean(values) * inverse == pytest.approx(1)


def test_outliers_are_named_by_position() -> None:
    values = [1.0, 1.01, 0.99, 5.0, 1.02, 0.98]
    assert statistics.outliers(values) == [3]
    assert statistics.outliers([1.0] * 8) == []


def test_known_values() -> None:
    values = [1.0, 2.0, 3.0, 4.0, 100.0]
    assert statistics.median(values) == 3
    assert statistics.mad(values) == 1
    assert statistics.percentile(values, 10) == pytest.approx(1.4)
    assert statistics.geometric_mean([1.0, 4.0]) == pytest.approx(2)


@pytest.mark.parametrize("values", [[], [float("nan")], [[1.0]]])
def test_empty_and_non_finite_samples_are_refused(values: list[float]) -> None:
    with pytest.raises(ValueError, match="allowed is one row"):
        statistics.median(values)


def test_geometric_mean_refuses_zero() -> None:
    with pytest.raises(ValueError, match="allowed are positive"):
        statistics.geometric_mean([1.0, 0.0])


def test_the_inverse_of_a_ratio_keeps_what_is_known_of_it():
    ratio = statistics.Summary(2.0, 1.0, 4.0, 5, "interval", 0.9375)
    assert ratio.inverse() == statistics.Summary(0.5, 0.25, 1.0, 5, "interval", 0.9375)
    assert ratio.inverse().inverse() == ratio


@pytest.mark.parametrize("noise", ["normal", "laplace", "logistic"])
@pytest.mark.parametrize("count", [3, 5, 6, 12])
def test_of_two_runs_alike_each_lies_in_the_interval_that_the_other_gives_for_it(noise: str, count: int) -> None:
    random = np.random.default_rng(count)
    pairs = np.exp(0.05 * getattr(random, noise)(size=(2000, 2, count)))
    agree = sum(_predicts(first, second) and _predicts(second, first) for first, second in pairs)
    assert 0.935 * len(pairs) <= agree <= 0.99 * len(pairs)


def _predicts(first: NDArray[np.floating], second: NDArray[np.floating]) -> bool:
    low, high = statistics.interval_of_another_run(first) or (0.0, 0.0)
    return low <= float(np.median(second)) <= high


@given(st.lists(st.floats(1e-6, 1e6), min_size=1, max_size=9), st.floats(0.01, 100))
def test_the_interval_of_a_second_run_needs_three_values_and_follows_their_unit(
    values: list[float], unit: float
) -> None:
    interval = statistics.interval_of_another_run(values)
    assert (interval is None) == (len(values) < 3)
    if interval is not None:
        scaled = statistics.interval_of_another_run([unit * value for value in values])
        assert scaled == pytest.approx([unit * end for end in interval])
    assert statistics.interval_of_another_run([*values, 1.0, 1.0, 0.0]) is None


def test_the_interval_of_a_second_run_of_extreme_values_has_numbers() -> None:
    low, high = statistics.interval_of_another_run([1e-300, 1.0, 1e300]) or (0.0, 0.0)
    assert 0 < low < 1 < high < float("inf")
