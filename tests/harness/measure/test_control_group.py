"""Limits of control groups: the tightest on the way to the root counts, in both versions; no file is an error."""

import os

import pytest

from harness.measure import control_group


def group(root, monkeypatch, own, **files):
    (root / "own").write_text(own)
    for name, text in files.items():
        path = root / name.replace("__", "/").replace("-", ".")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    monkeypatch.setattr(control_group, "ROOT", root)
    monkeypatch.setattr(control_group, "OWN", root / "own")


def test_the_tightest_of_the_groups_around_a_process_counts(tmp_path, monkeypatch):
    files = {"a__memory-max": "1000\n", "a__b__memory-max": "max\n", "a__b__cpu-max": "max 100000\n"}
    group(tmp_path, monkeypatch, "0::/a/b\n", **files, **{"a__cpu-max": "150000 100000\n"})
    assert control_group.memory_limit() == 1000
    assert control_group.cpu_quota() == 1.5
    assert control_group.usable_cores() == min(len(os.sched_getaffinity(0)), 1.5)


def test_the_first_version_has_a_folder_per_controller(tmp_path, monkeypatch):
    files = {"memory__job__memory-limit_in_bytes": "4096", "memory__memory-limit_in_bytes": str((1 << 63) - 4096)}
    files |= {"cpu__job__cpu-cfs_quota_us": "50000", "cpu__job__cpu-cfs_period_us": "100000"}
    group(tmp_path, monkeypatch, "9:memory:/job\n3:cpuacct,cpu:/job\n", **files)
    assert control_group.memory_limit() == 4096
    assert control_group.cpu_quota() == 0.5


@pytest.mark.parametrize("own", ["", "0::/a/b\n", "nonsense", "9:memory:/gone\n"])
@pytest.mark.parametrize("text", ["max", "max 100000", "-1", "", "\x00", "100000 0", "x y z"])
def test_without_a_limit_or_with_an_unknown_form_there_is_none(tmp_path, monkeypatch, own, text):
    files = {"memory__memory-limit_in_bytes": text if text != "100000 0" else "", "cpu-max": text, "memory-max": text}
    group(tmp_path, monkeypatch, own, **files)
    assert control_group.memory_limit() is None
    assert control_group.cpu_quota() is None
