"""Devices that are not here are told when a cell is planned."""

import pytest

from harness.planning import devices
from harness.planning.cells import resolve_cell
from harness.planning.compose import compose_one
from harness.planning.config import load


@pytest.mark.parametrize(
    ("device", "count", "missing"),
    [("cpu", 0, False), ("cuda", 0, True), ("cuda", 1, False), ("cuda:0", 1, False), ("cuda:1", 1, True)],
)
def test_a_device_that_is_not_here_is_not_installed_before_any_data_are_read(
    monkeypatch, tmp_path, device, count, missing
):
    monkeypatch.setattr(devices, "cuda_devices", lambda: count)
    monkeypatch.setattr(devices, "OTHER_DRIVER", tmp_path / "kfd")
    overrides = ["backend=reference", "model=gcn", "dataset=lookalike_products", f"device={device}"]
    cell = resolve_cell(load(compose_one([*overrides, "training.batch_size=null"])))
    assert (cell.status == "not_installed") == missing, cell.message
    assert (f"finds {count} CUDA devices" in cell.message) == missing
    assert cell.status is None or cell.may_run_elsewhere


def test_devices_of_another_driver_are_not_counted(monkeypatch, tmp_path):
    monkeypatch.setattr(devices, "cuda_devices", lambda: 0)
    monkeypatch.setattr(devices, "OTHER_DRIVER", tmp_path)
    assert devices.missing_device("cuda") is None
