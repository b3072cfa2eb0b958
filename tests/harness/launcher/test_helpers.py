"""CPU time of a process tree: that of its helpers apart from that of the process which started them."""

import os
import subprocess
import sys
from collections.abc import Iterator

import pytest

from harness.launcher.process import cpu_ticks, cpu_ticks_of_helpers

BURN = "import time\nwhile time.process_time() < 0.3: pass\n"
WAIT = "print(flush=True)\ninput()\n"
PARENT = f"{BURN}{WAIT}import subprocess, sys\nsubprocess.run([sys.executable, '-c', {BURN + WAIT!r}])\n"
BURNT = 0.25 * os.sysconf("SC_CLK_TCK")


@pytest.fixture
def parent() -> Iterator[subprocess.Popen[str]]:
    """A process that uses 0.3 CPU seconds, says so, waits for a line, and lets a child do the same."""
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    with subprocess.Popen([sys.executable, "-c", PARENT], start_new_session=True, **pipes) as process:
        yield process
        process.communicate("\n\n")


def test_work_of_the_first_process_is_no_work_of_helpers(parent: subprocess.Popen[str]) -> None:
    assert parent.stdin is not None and parent.stdout is not None
    parent.stdout.readline()
    assert cpu_ticks_of_helpers(parent.pid) == 0 and cpu_ticks({parent.pid}) >= BURNT
    parent.stdin.write("\n")
    parent.stdin.flush()
    parent.stdout.readline()
    assert BURNT <= cpu_ticks_of_helpers(parent.pid) <= cpu_ticks({parent.pid}) - BURNT
