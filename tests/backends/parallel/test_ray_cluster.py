"""A Ray that does not start leaves nothing behind; one that starts is tested with what runs on it."""

import os
import sys
import tempfile
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from backends.parallel import ray_cluster


class BrokenRay(ModuleType):
    """Ray on a machine on which it cannot start."""

    is_running = True

    def is_initialized(self) -> bool:
        return False

    def init(self, _temp_dir: str, **_options: Any) -> None:
        (Path(_temp_dir) / "session").mkdir()
        raise RuntimeError("the raylet did not start")

    def shutdown(self) -> None:
        self.is_running = False


def test_a_start_that_fails_leaves_no_folder_and_no_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    broken = BrokenRay("ray")
    monkeypatch.setitem(sys.modules, "ray", broken)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setattr(ray_cluster, "LONGEST_FOLDER", 1000)
    with pytest.raises(RuntimeError, match="raylet"):
        ray_cluster.acquire()
    assert not list(tmp_path.iterdir()) and not broken.is_running


class CountingRay(BrokenRay):
    """Notes the processors that it was given, and does not start."""

    def init(self, _temp_dir: str, **options: Any) -> None:
        self.processors = options["num_cpus"]
        super().init(_temp_dir)


def test_ray_has_the_processors_that_this_process_may_use(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ray = CountingRay("ray")
    monkeypatch.setitem(sys.modules, "ray", ray)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setattr(ray_cluster, "LONGEST_FOLDER", 1000)
    monkeypatch.setattr(os, "sched_getaffinity", lambda process: {0})
    with pytest.raises(RuntimeError, match="raylet"):
        ray_cluster.acquire()
    assert ray.processors == 1
