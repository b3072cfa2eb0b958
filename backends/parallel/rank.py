"""One rank of a pool: a process that builds objects, runs their methods and answers, until its owner is gone.

``ranks.RankPool`` starts it as ``python -m backends.parallel.rank RANK RANKS BACKEND OWNER PIPE STORE STACKS``:
OWNER is the process id of the pool, the last three are inherited descriptors.
"""

import ctypes
import faulthandler
import os
import pickle
import resource
import signal
import sys
import traceback
from contextlib import suppress
from multiprocessing import connection, reduction
from typing import Any

import torch
from torch import distributed

from backends.memory_errors import is_out_of_memory
from backends.parallel import mapped
from backends.parallel.deadline import collective_timeout
from backends.registry import load_object

PR_SET_PDEATHSIG = 1

# Status of the cell, one sentence, trace. A plain tuple, as the pool cannot unpickle a class of this ``__main__``.
Failure = tuple[str, str, str]


def failure_of(error: BaseException) -> Failure:
    """Describe an exception; its ``status``, if it has one, goes before the one guessed from its message."""
    message = traceback.format_exception_only(error)[-1].strip()
    status = getattr(error, "status", "oom" if is_out_of_memory(error) else "error")
    return status, message.splitlines()[0], "".join(traceback.format_exception(error))


class RankServer:
    """Carries out the requests of the pool; each is answered by a result or a ``Failure``."""

    def __init__(self, pipe: connection.Connection) -> None:
        self.pipe = pipe
        self.objects: dict[int, Any] = {}

    def build(self, number: int, factory: str, places: list[tuple[int, int]], threads: int) -> None:
        """Build object ``number`` from the arguments of this rank, in a file whose descriptor the pool sends next."""
        arguments = mapped.load(reduction.recv_handle(self.pipe), places)
        torch.set_num_threads(threads)
        self.objects[number] = load_object(factory)(*arguments)

    def call(self, number: int, method: str, arguments: tuple[Any, ...]) -> Any:
        """Run a method of an object."""
        return getattr(self.objects[number], method)(*arguments)

    def run(self, function: str) -> Any:
        """Call a function without arguments, "package.module:name"."""
        return load_object(function)()

    def drop(self, number: int) -> None:
        """Forget an object."""
        self.objects.pop(number, None)

    def serve(self) -> None:
        """Answer requests until the pipe is closed."""
        with suppress(EOFError, BrokenPipeError, ConnectionResetError):
            self.pipe.send((None, None))
            while True:
                request, *arguments = self.pipe.recv()
                try:
                    answer = pickle.dumps((getattr(self, request)(*arguments), None), protocol=5)
                except Exception as error:
                    answer = pickle.dumps((None, failure_of(error)))
                self.pipe.send_bytes(answer)


def die_with(owner: int) -> None:
    """Let the kernel end this process when its owner is gone."""
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != owner:
        os._exit(1)


def divide_memory(ranks: int) -> None:
    """Take this rank's share of the memory that the owner may use."""
    soft, hard = resource.getrlimit(resource.RLIMIT_DATA)
    if soft != resource.RLIM_INFINITY:
        resource.setrlimit(resource.RLIMIT_DATA, (soft // ranks, hard))


def join(backend: str, store: int, rank: int, ranks: int) -> None:
    """Meet the other ranks; their addresses are exchanged in the file of descriptor ``store``."""
    os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
    addresses = distributed.FileStore(f"/proc/self/fd/{store}", ranks)
    distributed.init_process_group(backend, store=addresses, timeout=collective_timeout(), world_size=ranks, rank=rank)


def main(arguments: list[str]) -> None:
    """Join the group and serve; a failure to join is the first answer."""
    backend = arguments.pop(2)
    rank, ranks, owner, descriptor, store, stacks = map(int, arguments)
    die_with(owner)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches all processes of a terminal: the owner ends the ranks
    for inherited in (descriptor, store, stacks):
        os.set_inheritable(inherited, False)
    faulthandler.register(signal.SIGUSR1, file=stacks, all_threads=False)
    pipe = connection.Connection(descriptor)
    try:
        divide_memory(ranks)
        join(backend, store, rank, ranks)
    except Exception as error:
        pipe.send((None, failure_of(error)))
        with suppress(EOFError, OSError):
            pipe.recv()  # a rank that has ended would be taken for the cause: the pool ends this one
        return
    RankServer(pipe).serve()
    os._exit(0)  # nothing to tidy up, and another rank may already be gone


if __name__ == "__main__":
    main(sys.argv[1:])
