"""A descriptor tells the end of a child process, also without ``pidfd_open``, and leaves the child to be reaped."""

import errno
import os
import select
import subprocess
import sys

import pytest

from backends.process_end import end_of
from harness.launcher.process import Child, ChildEnded, Guard

# Says something, and ends while a process that it started holds its pipes.
LEAVES_A_CHILD = """
import os, subprocess, sys
subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"], pass_fds=[int(sys.argv[2])])
os.write(int(sys.argv[2]), b'{"said": 1}\\n')
sys.exit(7)
"""


@pytest.fixture(params=["pidfd", "refused", "absent"])
def kernel(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """A kernel with ``pidfd_open``, one that refuses it, and a Python without it."""

    def refuse(pid: int, flags: int = 0) -> int:
        raise OSError(errno.ENOSYS, "Function not implemented")

    if request.param == "refused":
        monkeypatch.setattr(os, "pidfd_open", refuse)
    elif request.param == "absent":
        monkeypatch.delattr(os, "pidfd_open")


@pytest.mark.usefixtures("kernel")
def test_the_end_of_a_process_is_told_once_it_has_ended_and_its_code_stays() -> None:
    process = subprocess.Popen([sys.executable, "-c", "input(); raise SystemExit(3)"], stdin=subprocess.PIPE)
    ended = end_of(process.pid)
    assert select.select([ended], [], [], 0.0)[0] == []
    process.communicate(b"\n")
    assert select.select([ended], [], [], 30.0)[0] == [ended] and process.returncode == 3
    os.close(ended)


@pytest.mark.usefixtures("kernel")
def test_a_child_that_ends_while_its_children_live_is_seen_to_have_ended() -> None:
    guard = Guard()
    child = Child([sys.executable, "-c", LEAVES_A_CHILD], dict(os.environ), guard)
    try:
        assert child.receive(30.0) == {"said": 1}
        with pytest.raises(ChildEnded) as end:
            child.receive(30.0)
        assert end.value.returncode == 7
    finally:
        child.end()
        guard.close()


def test_a_child_that_nobody_gets_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(process: int) -> int:
        started.append(process)
        raise OSError(errno.EMFILE, "Too many open files")

    started: list[int] = []
    monkeypatch.setattr("backends.process_end.end_of", refuse)
    guard = Guard()
    with pytest.raises(OSError, match="Too many open files"):
        Child([sys.executable, "-c", "import time; time.sleep(60)"], dict(os.environ), guard)
    guard.close()
    with pytest.raises(ProcessLookupError):
        os.kill(started[0], 0)
