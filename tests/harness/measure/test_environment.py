"""What a record says of its machine: the same from every process, and different where the sources differ."""

import json
import shutil
import subprocess
import sys

from harness.measure import environment


def test_another_process_of_this_interpreter_tells_the_same():
    command = [sys.executable, "-m", "harness.measure.environment", "dummy", "2", "cpu"]
    answer = subprocess.run(command, cwd=environment.ROOT, capture_output=True, text=True, check=True)
    assert json.loads(answer.stdout) == json.loads(json.dumps(environment.describe("dummy", 2)))


def test_threads_and_packages_are_checked():
    assert environment.checked("dummy", 1) != environment.checked("dummy", 2)
    assert environment.checked("dummy", 1)["packages"]["torch"]
    assert environment.installed("no-such-package-at-all") is None


def test_only_own_engines_name_their_sources():
    assert "sources" in environment.checked("agl", 1)
    assert "sources" not in environment.checked("pyg", 1)


def test_the_source_hash_moves_with_any_source(tmp_path, monkeypatch):
    for folder in ("backends", "datasets"):
        shutil.copytree(environment.ROOT / folder, tmp_path / folder, ignore=shutil.ignore_patterns("__pycache__"))
    here = environment.source_hash("agl")
    monkeypatch.setattr(environment, "ROOT", tmp_path)
    assert environment.source_hash("agl") == here
    for name in ("backends/agl/config.py", "backends/base/trainer.py", "datasets/csr.py"):
        before = environment.source_hash("agl")
        (tmp_path / name).write_text((tmp_path / name).read_text() + "\n# moved\n")
        assert environment.source_hash("agl") != before
    before = environment.source_hash("agl")
    (tmp_path / "backends" / "pyg" / "config.py").write_text("")
    assert environment.source_hash("agl") == before
