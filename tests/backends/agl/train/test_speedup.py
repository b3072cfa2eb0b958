"""The model of the speed-up: at most linear, exact for one worker, bounded by network and server."""

import math
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from backends.agl.train.speedup import (
    NO_NETWORK,
    Calibration,
    ClusterNetwork,
    calibrate,
    expected_slowest,
    predicted_seconds,
    residence_time,
    sharing_factors,
    slope,
    speedup_curve,
    with_sharing,
)
from backends.agl.train.worker import WorkerClock
from tests.backends.agl.train.test_parameter_server import prepared

seconds = st.floats(0.0, 10.0)
calibrations = st.builds(
    Calibration,
    batches=st.integers(1, 5000),
    compute=st.floats(1e-4, 10.0),
    pull=seconds,
    push=seconds,
    receive=seconds,
    update=seconds,
    spread=st.lists(st.floats(1e-3, 10.0), max_size=20).map(tuple),
    moved=st.floats(0.0, 1e9),
    servers=st.integers(1, 8),
)
networks = st.builds(ClusterNetwork, st.floats(1e3, 1e12), st.floats(0.0, 1.0)) | st.just(NO_NETWORK)
strategies = st.sampled_from(["sync", "async", "bounded"])


def exchange_of(measured):
    """Seconds of a step beside computation, for one worker."""
    return measured.pull + measured.push + measured.receive + measured.update


def epoch_of(measured):
    """Measured seconds of an epoch of one worker."""
    return measured.batches * (measured.compute + exchange_of(measured))


@given(calibrations, st.integers(1, 100), strategies, networks)
def test_never_faster_than_linear(measured, workers, strategy, network):
    alone = predicted_seconds(measured, 1, strategy, network=network)
    assert predicted_seconds(measured, workers, strategy, network=network) >= alone / workers * (1 - 1e-9)


@given(calibrations, st.integers(1, 100), strategies, st.floats(1e3, 1e12), st.floats(1.0, 1e3), st.floats(0.0, 1.0))
def test_a_faster_network_never_slows(measured, workers, strategy, bandwidth, times, latency):
    def seconds_with(*network):
        return predicted_seconds(measured, workers, strategy, network=ClusterNetwork(*network))

    assert seconds_with(bandwidth * times, latency) <= seconds_with(bandwidth, latency) * (1 + 1e-9)
    assert seconds_with(bandwidth, 0.0) <= seconds_with(bandwidth, latency) * (1 + 1e-9)


@given(calibrations, st.integers(1, 100), strategies)
def test_an_infinite_bandwidth_is_the_model_without_a_network(measured, workers, strategy):
    without = predicted_seconds(measured, workers, strategy)
    assert predicted_seconds(measured, workers, strategy, network=ClusterNetwork(math.inf, 0.0)) == without
    nothing = replace(measured, moved=0.0)
    assert math.isclose(
        predicted_seconds(nothing, workers, strategy, network=ClusterNetwork(1.0)), without, rel_tol=1e-9
    )


@given(calibrations, st.integers(1, 100), networks)
def test_an_epoch_takes_what_the_link_and_the_busiest_server_need(measured, workers, network):
    link = measured.batches * measured.moved / measured.servers / network.bandwidth
    served = measured.batches * (measured.receive + measured.update)
    assert predicted_seconds(measured, workers, network=network) >= (link + served) * (1 - 1e-9)
    one = predicted_seconds(measured, 1, network=network) - epoch_of(measured)
    expected = measured.batches * (measured.moved / network.bandwidth + 4 * network.latency)
    assert one == pytest.approx(expected, rel=1e-6, abs=1e-6 * epoch_of(measured))


@given(st.floats(1e-4, 10.0), st.floats(1e-4, 10.0), st.floats(1.0, 1000.0))
def test_messages_wait_for_those_that_are_at_the_server(think, served, workers):
    residence = residence_time(think, served, workers)
    assert residence == pytest.approx(served * (1 + (workers - 1) * residence / (think + residence)), rel=1e-6)
    assert residence_time(think, served, 1) == pytest.approx(served)


@pytest.mark.parametrize("arguments", [(0.0, 0.0), (-1.0, 0.0), (math.nan, 0.0), (1.0, -1.0), (1.0, math.inf)])
def test_an_impossible_network_is_refused(arguments):
    with pytest.raises(ValueError, match="bandwidth above 0"):
        ClusterNetwork(*arguments)


@given(calibrations, strategies)
def test_the_model_of_one_worker_equals_its_measurement(measured, strategy):
    assert math.isclose(predicted_seconds(measured, 1, strategy), epoch_of(measured), rel_tol=1e-9)


@given(calibrations, st.integers(1, 99))
def test_a_further_asynchronous_worker_never_slows(measured, workers):
    assert predicted_seconds(measured, workers + 1, "async") <= predicted_seconds(measured, workers, "async") * (
        1 + 1e-9
    )


@given(calibrations, st.integers(2, 100))
def test_synchronous_workers_wait_for_the_slowest_and_for_the_server(measured, workers):
    steps = -(-measured.batches // workers)
    alone = measured.compute + exchange_of(measured)
    assert predicted_seconds(measured, workers, "sync") >= steps * (alone + (workers - 1) * measured.receive) * (
        1 - 1e-9
    )


@given(st.lists(st.floats(1e-3, 10.0), min_size=1, max_size=20), st.integers(1, 99))
def test_the_slowest_of_more_workers_is_slower(spread, workers):
    assert math.isclose(expected_slowest(spread, 1), 1.0, rel_tol=1e-9)
    assert expected_slowest(spread, workers) <= expected_slowest(spread, workers + 1) * (1 + 1e-9)
    assert expected_slowest(spread, workers) <= max(spread) / (sum(spread) / len(spread)) * (1 + 1e-9)


def test_without_exchange_and_with_equal_batches_the_curve_is_linear():
    measured = Calibration(batches=100, compute=1.0, pull=0, push=0, receive=0, update=0)
    rows = speedup_curve(measured, [1, 10, 50, 100])
    assert [row["speedup"] for row in rows] == [1, 10, 50, 100]
    assert {row["kind"] for row in rows} == {"model"} and math.isclose(slope(rows), 1.0)


def test_a_server_that_is_busy_all_the_time_bounds_the_speed():
    measured = Calibration(batches=1000, compute=1.0, pull=0, push=0, receive=0.05, update=0.05)
    assert 1000 * 0.1 <= predicted_seconds(measured, 100) < 1000 * 0.1 * 1.01


def test_a_run_of_one_worker_calibrates():
    trainer = prepared("gcn", 3, workers=1, strategy="sync", servers=0)
    clock = WorkerClock()
    for epoch in range(3):
        trainer.epoch(epoch, clock)
    mean = clock.seconds["workers"] / 3
    measured = calibrate(trainer.facts(), mean)
    trainer.close()
    assert math.isclose(epoch_of(measured), mean, rel_tol=1e-6) and measured.compute > 0 and measured.update > 0
    assert measured.moved == 2 * 4 * trainer.layout.size  # float32, there and back


@given(calibrations, st.floats(1.0, 5.0), st.integers(1, 50), strategies)
def test_sharing_a_machine_stretches_an_epoch_by_its_factor(measured, factor, workers, strategy):
    beside = predicted_seconds(with_sharing(measured, (factor, factor)), workers, strategy)
    assert math.isclose(beside, factor * predicted_seconds(measured, workers, strategy), rel_tol=1e-9)


def facts_of(workers, compute, exchange, targets=1000, steps=10):
    """Facts of workers that split the targets, each with so many seconds per target and per step."""
    part = {"targets": targets / workers, "steps": steps / workers, "wait": 7.0}
    seconds_of_phases = {"compute": compute * part["targets"], "pull": 0.0, "push": exchange * part["steps"]}
    return {"workers": [part | seconds_of_phases] * workers}


@given(st.integers(1, 8), st.floats(1.0, 3.0), st.floats(1.0, 3.0))
def test_sharing_factors_come_from_the_workers_clocks(workers, compute, exchange):
    alone = facts_of(1, 1e-3, 1e-2)
    actual = sharing_factors(alone, facts_of(workers, compute * 1e-3, exchange * 1e-2))
    assert actual == pytest.approx((compute, exchange))
    assert sharing_factors(alone, alone) == pytest.approx((1.0, 1.0))


def test_facts_of_two_workers_give_no_calibration():
    trainer = prepared("gcn", 3, workers=2, strategy="sync", servers=0)
    trainer.epoch(0, WorkerClock())
    with pytest.raises(ValueError, match="workers=1"):
        calibrate(trainer.facts(), 1.0)
    trainer.close()


def test_strategies_without_a_model_are_refused():
    measured = Calibration(1, 1.0, 0, 0, 0, 0)
    for workers, strategy in ((0, "sync"), (2, "allreduce")):
        with pytest.raises(ValueError, match=r"workers=0|allreduce"):
            predicted_seconds(measured, workers, strategy)
