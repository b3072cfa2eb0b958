"""A descriptor that tells the end of a child process, also where ``pidfd_open`` is missing."""

import os
import threading
from contextlib import suppress


def end_of(process: int) -> int:
    """Return a descriptor that can be read once a child of this process has ended; the caller closes it.

    Kernels before 5.3 and some sandboxes have no ``pidfd_open``, nor has a Python built for such a kernel: a thread
    waits for the child there, and leaves it to be reaped.
    """
    with suppress(OSError, AttributeError):
        return os.pidfd_open(process)
    reader, writer = os.pipe()
    threading.Thread(target=_tell_end, args=(process, writer), daemon=True).start()
    return reader


def _tell_end(process: int, writer: int) -> None:
    with suppress(OSError):  # the child was reaped already
        os.waitid(os.P_PID, process, os.WEXITED | os.WNOWAIT)
    with suppress(OSError):  # nobody reads any more
        os.write(writer, b"\0")
    os.close(writer)
