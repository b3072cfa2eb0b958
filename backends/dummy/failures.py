"""Failures of a cell on purpose: memory used up, signals, processes that hang or keep a core busy."""

import os
import resource
import signal
import subprocess
import sys
import time

import numpy as np

BLOCK = 64 << 20


def fail(kind: str) -> None:
    """Fail in one way of ``config.FAILURES``; ``none`` and ``wrong`` do nothing here."""
    if kind == "raise":
        raise RuntimeError("dummy failed because backend.fail=raise")
    if kind == "oom":
        _use_all_memory()
    if kind == "hang":
        # A group of its own, as the workers of distributed runtimes have.
        subprocess.Popen([sys.executable, "-c", "import time; time.sleep(3600)"], process_group=0)
        time.sleep(3600)
    if kind == "crash":
        os.kill(os.getpid(), signal.SIGSEGV)
    if kind == "slow_child":
        subprocess.Popen([sys.executable, "-c", "while True: pass"])


def _use_all_memory() -> None:
    """Allocate and touch memory until the limit; without a limit that would take the machine down."""
    if resource.getrlimit(resource.RLIMIT_DATA)[0] == resource.RLIM_INFINITY:
        raise MemoryError("backend.fail=oom does not allocate without RLIMIT_DATA: use launcher=process")
    blocks = []
    while True:
        blocks.append(np.ones(BLOCK, dtype=np.int8))
