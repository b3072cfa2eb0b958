"""What a measured process leaves in its temporary folder goes with it, also where it or its parent is killed."""

import os
import signal
import subprocess
import sys
import tempfile
import textwrap
import time
from pathlib import Path

import pytest

from harness.launcher.process import Child, Guard

LEAVES = """
    import os, sys, tempfile, time
    folder = tempfile.mkdtemp(prefix="left-")
    open(folder + "/shard", "w").write("x")
    os.write(int(sys.argv[2]), ('{"folder": "%s"}\\n' % folder).encode())
    time.sleep(60)
"""


def test_the_folder_goes_with_a_process_that_is_killed():
    guard = Guard()
    child = Child([sys.executable, "-c", textwrap.dedent(LEAVES)], dict(os.environ), guard)
    folder = Path(child.receive(30)["folder"])
    assert (folder / "shard").exists()
    child.end()
    guard.close()
    assert not folder.parent.exists()


class InterruptedGuard(Guard):
    """Ctrl-C comes when a child has been started, before the guard is told."""

    def tell(self, word: str, tree: int, place: str = "") -> None:
        raise KeyboardInterrupt


@pytest.mark.parametrize(
    ("program", "kind", "failure"),
    [("/no/such/python", Guard, FileNotFoundError), (sys.executable, InterruptedGuard, KeyboardInterrupt)],
)
def test_a_child_that_does_not_start_leaves_no_folder(program, kind, failure, tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    guard = kind()
    with pytest.raises(failure):
        Child([program, "-c", "import sys; sys.stdin.read()"], dict(os.environ), guard)
    guard.close()
    assert list(tmp_path.iterdir()) == []


PARENT = """
    import os, sys
    from harness.launcher.process import Child, Guard
    child = Child([sys.executable, "-c", sys.argv[1]], dict(os.environ), Guard())
    print(child.receive(30)["folder"], flush=True)
    sys.stdin.read()
"""


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_the_guard_removes_it_where_the_parent_dies(number):
    command = [sys.executable, "-c", textwrap.dedent(PARENT), textwrap.dedent(LEAVES)]
    parent = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    folder = Path(parent.stdout.readline().strip())
    assert (folder / "shard").exists()
    parent.send_signal(number)
    parent.wait()
    until = time.monotonic() + 30
    while folder.parent.exists() and time.monotonic() < until:
        time.sleep(0.05)
    assert not folder.parent.exists()
