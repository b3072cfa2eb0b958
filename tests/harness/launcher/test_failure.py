"""Statuses of cells that ended with an exception, or silently."""

import signal

import pytest

from backends.contract import Unsupported
from harness.launcher.failure import status_of, status_of_exit


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (MemoryError(), "oom"),
        (RuntimeError("[enforce fail at alloc_cpu.cpp:1] DefaultCPUAllocator: can't allocate memory"), "oom"),
        (RuntimeError("DefaultCPUAllocator: not enough memory: you tried to allocate 8 bytes"), "oom"),
        (OSError(12, "Cannot allocate memory"), "oom"),
        (RuntimeError("CUDA error: out of memory"), "oom"),
        (RuntimeError("bad_alloc"), "oom"),
        (RuntimeError("shapes cannot be multiplied"), "error"),
        (ValueError("a column named MemoryError"), "error"),
        (Unsupported("no such model"), "unsupported"),
        (ModuleNotFoundError("No module named 'dgl'"), "not_installed"),
        (ModuleNotFoundError("No module named 'no_such'", name="no_such.part"), "not_installed"),
        (ModuleNotFoundError("No module named 'backends.helprs'", name="backends.helprs"), "error"),
    ],
    ids=repr,
)
def test_exceptions_have_a_status(error, status):
    assert status_of(error)[0] == status
    assert status_of(error)[1]


class RankFailed(Exception):
    """An exception with a status, like those of a pool of ranks."""

    def __init__(self, status, message):
        super().__init__(message)
        self.status = status


def test_an_exception_may_say_its_status():
    assert status_of(RankFailed("timeout", "rank 2 of 3 is late\ntrace")) == ("timeout", "rank 2 of 3 is late")
    assert status_of(RankFailed("oom", "rank 1 ended")) == ("oom", "rank 1 ended")
    assert status_of(RankFailed("tired", "an unknown status"))[0] == "error"


@pytest.mark.parametrize(
    ("returncode", "tail", "status", "word"),
    [
        (-signal.SIGKILL, "", "oom", "SIGKILL"),
        (-signal.SIGSEGV, "", "error", "SIGSEGV"),
        (-signal.SIGABRT, "terminate called after throwing an instance of 'std::bad_alloc'", "oom", "SIGABRT"),
        (3, "", "error", "3"),
    ],
)
def test_silent_ends_have_a_status(returncode, tail, status, word):
    actual, message = status_of_exit(returncode, tail)
    assert actual == status
    assert word in message


def test_a_process_killed_while_the_kernel_ended_none_for_want_of_memory_was_killed_from_outside():
    status, message = status_of_exit(-signal.SIGKILL, "", is_memory_short=False)
    assert status == "error" and message.startswith("killed by signal 9 (SIGKILL) from outside: ")
    assert status_of_exit(-signal.SIGABRT, "std::bad_alloc", is_memory_short=False)[0] == "oom"
