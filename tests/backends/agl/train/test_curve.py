"""Speed-up curves from records: measured rows, model rows, refused records."""

import pytest

from backends.agl.train.speedup import speedup_rows
from backends.agl.train.worker import WorkerClock
from tests.backends.agl.train.test_parameter_server import prepared


def record_of(workers, strategy="async", **facts):
    """A record as the harness writes it, of a real run."""
    trainer = prepared("gcn", 3, workers=workers, strategy=strategy, servers=0)
    seconds = []
    for epoch in range(2):
        clock = WorkerClock()
        trainer.epoch(epoch, clock)
        seconds.append(clock.seconds["workers"])
    record = {"status": "ok", "facts": trainer.facts() | facts, "epochs": {"seconds": seconds}}
    trainer.close()
    return record | {"config": {"backend": {"strategy": strategy, "workers": workers}}}


def test_the_curve_of_records_says_what_is_measured_and_what_is_a_model():
    records = [record_of(workers) for workers in (1, 2)]
    rows = speedup_rows(records)
    assert [row["kind"] for row in rows] == ["measured"] * 2 + ["model"] * 11
    assert rows[0]["speedup"] == rows[2]["speedup"] == 1
    assert rows[0]["model_error"] == pytest.approx(0, abs=1e-9) == rows[0]["shared_error"]
    assumed = speedup_rows(records, networks=[{"bandwidth": 1e6, "latency": 1e-3}])[2:]
    assert [row["network"] for row in assumed] == ["no network"] * 11 + ["0.008 Gbit/s, 1000 µs"] * 11


def test_records_without_one_worker_are_refused():
    record = record_of(2)
    with pytest.raises(ValueError, match="workers=1"):
        speedup_rows([record])
    with pytest.raises(ValueError, match="no record has parameter servers"):
        speedup_rows([record | {"facts": record["facts"] | {"servers": []}}])


def test_bounded_workers_are_modelled_as_far_ahead_as_they_may_be():
    record = record_of(1)
    rows = {}
    for strategy, staleness in (("sync", 2), ("async", 2), ("bounded", 0), ("bounded", 2)):
        config = {"backend": {"strategy": strategy, "workers": 1, "staleness": staleness}}
        rows[strategy, staleness] = [row["seconds"] for row in speedup_rows([record | {"config": config}], 100)[1:]]
    assert rows["sync", 2] != rows["async", 2]
    assert rows["bounded", 0] == rows["sync", 2] and rows["bounded", 2] == rows["async", 2]
