"""The machine's lock: one run measures at a time, the others wait and name the run that holds it."""

import fcntl
import json
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path


class Busy(Exception):
    """Another run measures on this machine, and this one must not wait (``wait=false``)."""


def lock_path() -> Path:
    """The machine's lock file; all users share it, also where the folder is full."""
    return Path(os.environ.get("TMPDIR") or "/tmp") / "gnn-harness.launcher.lock"


def holder() -> str:
    """Describe who holds the lock, in the words of the lock file."""
    try:
        process = json.loads(lock_path().read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return "another process"
    return f"process {process['pid']}: {process['command']}"


@contextmanager
def machine_lock(wait: bool, on_wait: Callable[[str], None]) -> Iterator[None]:
    """Hold the machine; when it is taken call ``on_wait`` with its holder and wait, or raise Busy."""
    descriptor = _open(lock_path())
    try:
        _acquire(descriptor, wait, on_wait)
        note = json.dumps({"pid": os.getpid(), "command": " ".join(sys.orig_argv)})
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, note.encode(), 0)
        yield
    finally:
        os.close(descriptor)


def _open(path: Path) -> int:
    """Open a file that every user may lock; kernels refuse O_CREAT on another user's file in a shared folder."""
    try:
        return os.open(path, os.O_RDWR | os.O_CLOEXEC)
    except FileNotFoundError:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC)
        os.fchmod(descriptor, 0o666)  # whatever the umask says
        return descriptor


def _acquire(descriptor: int, wait: bool, on_wait: Callable[[str], None]) -> None:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        if not wait:
            raise Busy(f"{holder()} is measuring on this machine: wait for it, or run with wait=true") from None
        on_wait(holder())
        fcntl.flock(descriptor, fcntl.LOCK_EX)
