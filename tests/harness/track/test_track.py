"""Trackers: one finished run per record, offline; their failures are warnings."""

import subprocess
import sys
import time
from pathlib import Path

import pytest

from harness.planning.schema import TrackerConfig
from harness.track import start
from harness.track import wandb as tracked
from harness.usage import UsageError
from tests import factory

ROOT = Path(__file__).resolve().parents[3]


def offline_runs(folder: Path) -> list[Path]:
    """Run folders that W&B wrote."""
    return sorted(folder.glob("wandb/offline-run-*"))


def whole(log: Path) -> bytes:
    """Read a run's file once W&B's own process, which may lag behind ``finish``, has written more than a header."""
    for _ in range(100):
        if log.stat().st_size > 64:
            break
        time.sleep(0.2)
    return log.read_bytes()


def test_the_tracker_none_writes_nothing(tmp_path: Path) -> None:
    tracker = start(TrackerConfig(), tmp_path)
    tracker.record(factory.record())
    assert not list(tmp_path.iterdir())


def test_one_offline_run_per_record_with_config_history_and_summary(tmp_path: Path) -> None:
    tracker = start(TrackerConfig(name="wandb"), tmp_path)
    records = [factory.record("agl", 0), factory.record("dgl", 1), factory.record("pyg", 0, status="oom")]
    for record in records:
        tracker.record(record | {"environment": "e"})
    assert tracker.failed == 0
    runs = offline_runs(tmp_path)
    assert len(runs) == len(records)
    logs = {run.name.rsplit("-", 1)[1]: whole(next(run.glob("*.wandb"))) for run in runs}
    for record in records:
        text = logs[tracked.run_id(record | {"environment": "e"})]  # type: ignore[arg-type]
        assert b"output_heads" in text
        assert (b"epoch/seconds" in text) == (record["status"] == "ok")
        assert record["status"].encode() in text
        assert (b"epoch_median_seconds" in text) == (record["status"] == "ok")


def test_history_and_summary_hold_the_measured_values() -> None:
    record = factory.record("agl", 0, 0.1)
    rows = tracked.history(record)  # type: ignore[arg-type]
    assert [row["epoch/seconds"] for row in rows if "epoch/seconds" in row] == record["epochs"]["seconds"]
    assert sum("validation/score" in row for row in rows) == len(record["validation"])
    summary = tracked.summary(record)  # type: ignore[arg-type]
    assert summary["metrics.test"] == record["metrics"]["test"]
    assert summary["epoch_median_seconds"] == pytest.approx(0.1, rel=0.03)
    failed = tracked.summary(factory.record(status="oom"))  # type: ignore[arg-type]
    assert failed["status"] == "oom"
    assert "epoch_median_seconds" not in failed


def test_a_replay_has_the_id_of_its_run_and_other_cells_have_others() -> None:
    ids = [tracked.run_id(factory.record("agl", seed)) for seed in (0, 0, 1)]  # type: ignore[arg-type]
    assert ids[0] == ids[1] != ids[2]


def test_each_run_of_a_group_has_an_id_of_its_own() -> None:
    ids = {tracked.run_id(factory.record("agl", 0, run=run)) for run in ("a", "a", "b")}  # type: ignore[arg-type]
    assert len(ids) == 2


def test_a_failure_is_a_warning(tmp_path: Path) -> None:
    tracker = start(TrackerConfig(name="wandb", mode="nonsense"), tmp_path)
    with pytest.warns(UserWarning, match="harness sync replays it"):
        tracker.record(factory.record() | {"environment": "e"})
    assert tracker.failed == 1


def test_wandb_is_imported_only_to_send() -> None:
    code = (
        "import sys; from harness.planning.schema import TrackerConfig; from harness.track import start\n"
        "start(TrackerConfig(name='wandb')); print('wandb' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


def test_an_unknown_tracker_is_named() -> None:
    with pytest.raises(UsageError, match="allowed are none, wandb"):
        start(TrackerConfig(name="wanbd"))
