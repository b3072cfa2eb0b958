"""What a measured process leaves in its temporary folder goes with it, also where it or its parent is killed."""

import os
import signal
import subprocess
import sys
import tempfile
import textwrap
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from harness.launcher.process import Child, Guard, LauncherError, end_tree, members

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

    def tell(self, word: str, subject: int | str) -> None:
        if isinstance(subject, int):
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
    from harness.launcher.process import Child, Guard, LauncherError, end_tree, members
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
    assert ends(folder.parent.exists)


def test_a_guard_that_is_killed_is_named_and_closed(monkeypatch, tmp_path):
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr(tempfile, "tempdir", None)
    guard = Guard()
    child = Child([sys.executable, "-c", "import sys; sys.stdin.read()"], dict(os.environ), guard)
    os.kill(guard._process.pid, signal.SIGKILL)
    guard._process.wait()
    with pytest.raises(LauncherError, match="the guard process was killed: start the run again"):
        child.end()
    guard.close()
    assert not list(tmp_path.iterdir())


def ends(condition: Callable[[], object]) -> bool:
    """Wait until a condition no longer holds; false when it still does after 30 seconds."""
    until = time.monotonic() + 30
    while condition() and time.monotonic() < until:
        time.sleep(0.05)
    return not condition()


KILLED_PARENT = """
    import os, signal, sys
    from harness.launcher.process import Child, Guard

    class Last(Guard):
        told = 0
        def tell(self, word, subject):
            self.told += 1
            if self.told <= int(sys.argv[1]):
                return super().tell(word, subject)
            os.kill(os.getpid(), signal.SIGKILL)

    Child([sys.executable, "-c", "import sys; sys.stdin.read()"], dict(os.environ), Last())
"""


@pytest.mark.parametrize("messages", [0, 1])
def test_a_parent_killed_while_it_starts_a_child_leaves_no_folder(messages, tmp_path):
    command = [sys.executable, "-c", textwrap.dedent(KILLED_PARENT), str(messages)]
    parent = subprocess.run(command, env=os.environ | {"TMPDIR": str(tmp_path)})
    assert parent.returncode == -signal.SIGKILL
    assert ends(lambda: list(tmp_path.iterdir()))


WITHOUT_FIRST_THREAD = """
    import ctypes, os, threading, time
    threading.Thread(target=time.sleep, args=(60,)).start()
    ctypes.CDLL(None).pthread_exit(None)
"""


def test_a_process_whose_first_thread_has_ended_still_runs():
    process = subprocess.Popen([sys.executable, "-c", textwrap.dedent(WITHOUT_FIRST_THREAD)], start_new_session=True)
    stat = Path(f"/proc/{process.pid}/stat")
    assert ends(lambda: ") Z " not in stat.read_text())
    assert members(process.pid) == [process.pid]
    assert end_tree(process.pid) == []
    process.wait()
