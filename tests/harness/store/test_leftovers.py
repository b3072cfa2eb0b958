"""Leftovers of killed writers: old ones go, those of processes that run stay."""

import os
import signal
import subprocess
import sys
from pathlib import Path

from harness.store.leftovers import remove_leftovers
from tests import factory

ROOT = Path(__file__).resolve().parents[3]
KILLED = (
    "import os, pathlib, signal, sys\n"
    "from tests import factory\n"
    "os.fsync = lambda descriptor: os.kill(os.getpid(), signal.SIGKILL)\n"
    "factory.write(pathlib.Path(sys.argv[1]), factory.record(seed=1))\n"
)


def test_what_a_killed_writer_left_goes_and_what_a_living_one_writes_stays(tmp_path: Path) -> None:
    record = factory.write(tmp_path, factory.record())
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    done = subprocess.run([sys.executable, "-c", KILLED, str(tmp_path)], env=environment, check=False)
    assert done.returncode == -signal.SIGKILL
    (left,) = record.parent.glob(".*.tmp")
    of_environment = tmp_path / "environments" / f".0123456789ab.json.{left.suffixes[-2][1:]}.tmp"
    of_environment.touch()
    living = left.with_name(f".{record.name}.{os.getpid()}.tmp")
    living.touch()
    young = left.with_name(f".young.json{left.suffixes[-2]}.tmp")
    young.touch()
    for path in (left, of_environment, living):
        os.utime(path, (0, 0))
    remove_leftovers(tmp_path, [record.relative_to(tmp_path).as_posix()])
    assert not left.exists() and not of_environment.exists()
    assert living.exists() and young.exists() and record.exists()
