"""The command that prints speed-up curves from records: measured rows, model rows, refused records."""

import json

import pytest
from omegaconf import OmegaConf

from backends.agl.train.speedup import main, speedup_rows
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


def test_the_curve_of_records_says_what_is_measured_and_what_is_a_model(tmp_path, capsys):
    paths = [tmp_path / "one.json", tmp_path / "two.json"]
    for workers, path in enumerate(paths, start=1):
        path.write_text(json.dumps(record_of(workers)))
    assert main([str(path) for path in paths]) == 0
    lines = capsys.readouterr().out.splitlines()[1:]
    assert [line.split()[4] for line in lines] == ["measured"] * 2 + ["model"] * 11
    assert lines[0].split()[3] == lines[2].split()[3] == "1.00" and lines[0].endswith("+0 %, +0 %")
    assert main([*map(str, paths), "--bandwidth", "1e6", "--latency", "1e-3"]) == 0
    assumed = [line.partition("model")[2].strip() for line in capsys.readouterr().out.splitlines()[3:]]
    assert assumed == ["no network"] * 11 + ["0.008 Gbit/s, 1000 µs"] * 11


def test_records_without_one_worker_are_refused(tmp_path, capsys):
    path = tmp_path / "two.json"
    path.write_text(json.dumps(record_of(2)))
    assert main([str(path)]) == 2
    assert "workers=1" in capsys.readouterr().err
    path.write_text(json.dumps(record_of(2, servers=[])))
    assert main([str(path)]) == 2
    assert "no record has parameter servers" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"config": {"dataset": {"name": "cora"}}}, "the records differ in their data set: give those of one"),
        ({"environment": "b"}, 'the records differ in their environment: give those of one at a time: "a", "b"'),
        ({"config": {"backend": {"workers": 1}}}, "2 records are of strategy=async staleness=0 workers=1: give one"),
    ],
)
def test_records_that_no_curve_can_join_are_refused(tmp_path, capsys, changed, message):
    record = {"status": "ok", "environment": "a", "facts": {"servers": [{}]}}
    configs = [{"backend": {"strategy": "async", "workers": workers}, "dataset": {"name": "uug"}} for workers in (1, 2)]
    records = [record | {"config": config} for config in configs]
    records[1] = OmegaConf.to_container(OmegaConf.merge(records[1], changed))
    paths = [tmp_path / f"{at}.json" for at in range(2)]
    for path, written in zip(paths, records, strict=True):
        path.write_text(json.dumps(written))
    assert main([str(path) for path in paths]) == 2
    assert message in capsys.readouterr().err


def test_bounded_workers_are_modelled_as_far_ahead_as_they_may_be():
    record = record_of(1)
    rows = {}
    for strategy, staleness in (("sync", 2), ("async", 2), ("bounded", 0), ("bounded", 2)):
        config = {"backend": {"strategy": strategy, "workers": 1, "staleness": staleness}}
        rows[strategy, staleness] = [row["seconds"] for row in speedup_rows([record | {"config": config}], 100)[1:]]
    assert rows["sync", 2] != rows["async", 2]
    assert rows["bounded", 0] == rows["sync", 2] and rows["bounded", 2] == rows["async", 2]
