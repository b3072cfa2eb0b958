"""A pool of torch.distributed ranks: processes of this machine that build objects and run their methods together."""

import atexit
import os
import pickle
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from itertools import count
from multiprocessing import Pipe, connection, reduction
from typing import IO, Any

import torch

from backends.memory_errors import FROM_OUTSIDE, is_out_of_memory, kills
from backends.parallel import mapped, rank
from backends.parallel.deadline import seconds_left, wait_for
from backends.process_end import end_of

STACK_SECONDS = 1.0  # for a late rank to write its stack
ENDED_SECONDS = 1.0  # for a rank to be seen as ended, after another rank failed because of it
THREAD_VARIABLES = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")


class RankFailed(RuntimeError):
    """A rank failed, and the pool with it; ``status`` is the cell's: error, oom or timeout."""

    def __init__(self, rank: int, status: str, message: str) -> None:
        super().__init__(message)
        self.rank, self.status = rank, status


class RankEnded(RankFailed):
    """The process of a rank ended."""


class RankProcess:
    """The process of one rank, its pipe and its stack file, on the pool's side."""

    def __init__(self, number: int, ranks: int, backend: str, store: int) -> None:
        self.number, self.stacks = number, tempfile.TemporaryFile()  # noqa: SIM115 - closed in end()
        self.pipe, child_end = Pipe()
        inherited = (child_end.fileno(), store, self.stacks.fileno())
        # Not multiprocessing, which would import the caller's main module in the rank.
        command = [sys.executable, "-m", rank.__name__, str(number), str(ranks), backend, str(os.getpid())]
        self.process = subprocess.Popen(
            [*command, *map(str, inherited)], env=_environment(ranks), stdin=subprocess.DEVNULL, pass_fds=inherited
        )
        child_end.close()
        self.ended = end_of(self.process.pid)

    def limit(self, seconds: float | None) -> None:
        """Let sending and reading take so long at most, then raise BlockingIOError: a stopped rank reads nothing."""
        spans = struct.pack("ll", 0, 0) if seconds is None else struct.pack("ll", int(seconds) + 1, 0)
        with socket.socket(fileno=os.dup(self.pipe.fileno())) as end:
            for option in (socket.SO_SNDTIMEO, socket.SO_RCVTIMEO):
                end.setsockopt(socket.SOL_SOCKET, option, spans)

    def answer(self) -> tuple[Any, rank.Failure | None] | None:
        """Read an answer that has arrived; ``None`` where the process ended without one."""
        try:
            answer: tuple[Any, rank.Failure | None] = pickle.loads(self.pipe.recv_bytes())
        except BlockingIOError:  # it stopped amid an answer
            raise
        except (EOFError, OSError):  # OSError: it ended amid an answer
            return None
        return answer

    def stack(self) -> list[str]:
        """The lines of the stack that the process wrote on SIGUSR1, innermost first."""
        text = os.pread(self.stacks.fileno(), 1 << 16, 0)  # pread, as the rank's process shares the file's position
        return [line.strip() for line in text.decode().splitlines() if "File" in line]

    def end(self) -> None:
        """Kill the process."""
        self.process.kill()
        self.process.wait()
        self.pipe.close()
        self.stacks.close()
        os.close(self.ended)


def _environment(ranks: int) -> dict[str, str]:
    """Environment of a rank: this process's import path, and the rank's share of the threads."""
    path = os.pathsep.join(os.path.abspath(folder) for folder in sys.path)  # noqa: PTH100 - "" is the current folder
    threads = str(threads_of_a_rank(ranks))
    return os.environ | {"PYTHONPATH": path, "PYTHONSAFEPATH": "1"} | dict.fromkeys(THREAD_VARIABLES, threads)


def threads_of_a_rank(ranks: int) -> int:
    """A rank's share of this process's threads."""
    return max(1, torch.get_num_threads() // ranks)


class RankPool:
    """Rank processes that are started once and build any number of objects, which may exist side by side.

    Calls wait until every rank has answered, at most until the deadline of this process. When one rank raises, ends or
    is late, the others may wait for it for ever: the call raises ``RankFailed``, and the pool is closed. Later calls
    raise it with the same status.
    """

    def __init__(self, ranks: int, backend: str = "gloo") -> None:
        self.size, self.backend, self.closed = ranks, backend, False
        self.status = "error"  # of calls after the pool is closed: that of the failure which closed it
        self.lock, self.numbers, self.kills = threading.Lock(), count(), kills()
        self.processes: list[RankProcess] = []
        self.store = tempfile.TemporaryFile()  # noqa: SIM115 - closed in close()
        # PR_SET_PDEATHSIG ends a rank with the thread that started it: this thread must live as long as the pool.
        self.starter = ThreadPoolExecutor(1, thread_name_prefix="ranks")
        try:
            for number in range(ranks):
                start = self.starter.submit(RankProcess, number, ranks, backend, self.store.fileno())
                self.processes.append(start.result())
            self._answers("start")
        except BaseException:
            self.close()
            raise

    def build(self, factory: str, arguments: Sequence[tuple[Any, ...]]) -> "RankObjects":
        """Let each rank call ``factory`` ("package.module:Name") with its own arguments; large arrays are mapped."""
        number = next(self.numbers)
        file, places = mapped.dump(arguments)
        with file:
            threads = threads_of_a_rank(self.size)
            self._request("build", [("build", number, factory, of_rank, threads) for of_rank in places], file)
        return RankObjects(self, number)

    def call(self, number: int, method: str, arguments: Sequence[tuple[Any, ...]]) -> list[Any]:
        """Run a method of object ``number`` on all ranks at once, on each with its own arguments."""
        return self._request(method, [("call", number, method, of_rank) for of_rank in arguments])

    def run(self, function: str) -> list[Any]:
        """Call a function without arguments, "package.module:name", on all ranks at once."""
        return self._request(function, [("run", function)] * self.size)

    def drop(self, number: int) -> None:
        """Let all ranks forget object ``number``."""
        if not self.closed:
            self._request("drop", [("drop", number)] * self.size)

    def close(self) -> None:
        """End all ranks."""
        self.closed = True
        for process in self.processes:
            process.end()
        self.processes = []
        self.store.close()
        self.starter.shutdown()

    def _request(self, name: str, requests: Sequence[tuple[Any, ...]], file: IO[bytes] | None = None) -> list[Any]:
        with self.lock:
            if self.closed:
                raise RankFailed(-1, self.status, f"the pool of {self.size} ranks was closed: prepare again")
            try:
                for process, request in zip(self.processes, requests, strict=True):
                    with suppress(BrokenPipeError, ConnectionResetError):  # the answers tell how it ended
                        self._send(process, request, name, file)
                return self._answers(name)
            except BaseException as error:
                self.status = getattr(error, "status", "oom" if is_out_of_memory(error) else "error")
                self.close()
                raise

    def _send(self, process: RankProcess, request: tuple[Any, ...], name: str, file: IO[bytes] | None) -> None:
        process.limit(seconds_left())
        try:
            process.pipe.send(request)
            if file is not None:
                reduction.send_handle(process.pipe, file.fileno(), process.process.pid)
        except BlockingIOError:
            raise self._late([process], name) from None

    def _answers(self, name: str) -> list[Any]:
        """One answer of each rank; raises RankFailed for the first that fails."""
        answers: dict[int, Any] = {}
        while silent := [process for process in self.processes if process.number not in answers]:
            watched = [end for process in silent for end in (process.pipe, process.ended)]
            ready = connection.wait(watched, seconds_left())
            if not ready:
                raise self._late(silent, name)
            for process in silent:
                if process.pipe in ready:
                    answers[process.number] = self._checked(process, name)
                elif process.ended in ready and not process.pipe.poll():
                    raise self._gone(process, name)
        return [answers[number] for number in range(self.size)]

    def _checked(self, process: RankProcess, name: str) -> Any:
        process.limit(seconds_left())
        try:
            answer = process.answer()
        except BlockingIOError:
            raise self._late([process], name) from None
        if answer is None:
            raise self._gone(process, name)
        value, failure = answer
        if failure is None:
            return value
        # A rank that has ended makes others fail: it is the cause.
        ended = connection.wait([other.ended for other in self.processes], ENDED_SECONDS)
        for other in self.processes:
            if other.ended in ended:
                raise self._gone(other, name)
        status, message, trace = failure
        sentence = f"rank {process.number} of {self.size} failed in {name!r}: {message}"
        raise RankFailed(process.number, status, f"{sentence}\n{trace}")

    def _gone(self, process: RankProcess, name: str) -> RankEnded:
        code = process.process.wait()
        how = f"by {signal.Signals(-code).name}" if code < 0 else f"with exit code {code}"
        sentence, counted = f"rank {process.number} of {self.size} ended in {name!r} {how}", kills()
        if code != -signal.SIGKILL:
            return RankEnded(process.number, "error", sentence)
        if counted is None or counted != self.kills:
            reason = "with which the kernel ends a process when memory runs out"
            return RankEnded(process.number, "oom", f"{sentence}, {reason}")
        return RankEnded(process.number, "error", f"{sentence} {FROM_OUTSIDE}")

    def _late(self, silent: Sequence[RankProcess], name: str) -> RankFailed:
        """Return the error of the rank at fault: of the silent ones, the first that is not waiting for other ranks."""
        for process in silent:
            process.process.send_signal(signal.SIGUSR1)
        until = time.monotonic() + STACK_SECONDS
        while not all(process.stack() for process in silent) and time.monotonic() < until:
            time.sleep(0.01)
        stacks = {process.number: process.stack() for process in silent}
        busy = [number for number, stack in stacks.items() if not (stack and _waits(stack[0]))]
        cause = min(busy or stacks)
        where = f", at {stacks[cause][0]}" if stacks[cause] else ""
        sentence = f"rank {cause} of {self.size} did not answer {name!r} before the deadline{where}"
        return RankFailed(cause, "timeout", f"{sentence}: raise measure.deadline_seconds or group_seconds")


def _waits(frame: str) -> bool:
    """Whether the innermost frame of a stack waits for other ranks."""
    return f"torch{os.sep}distributed" in frame or frame.endswith(f" in {wait_for.__name__}")


class RankObjects:
    """One object on each rank of a pool."""

    def __init__(self, pool: RankPool, number: int) -> None:
        self.pool, self.number = pool, number

    def each(self, method: str, arguments: Sequence[tuple[Any, ...]]) -> list[Any]:
        """Call a method on all ranks at once, each with its own arguments; raises RankFailed."""
        return self.pool.call(self.number, method, arguments)

    def close(self) -> None:
        """Let the ranks forget the objects; the ranks stay for others."""
        self.pool.drop(self.number)


_pools: dict[tuple[int, str], RankPool] = {}


def shared_pool(ranks: int, backend: str = "gloo") -> RankPool:
    """The pool of this process with ``ranks`` ranks, started at the first call and ended with the process."""
    key = (ranks, backend)
    if key not in _pools or _pools[key].closed:
        _pools[key] = RankPool(ranks, backend)
    return _pools[key]


def in_all_ranks(function: str) -> list[Any]:
    """Call a function without arguments, "package.module:name", in every rank of this process's shared pools."""
    return [answer for pool in _pools.values() if not pool.closed for answer in pool.run(function)]


@atexit.register
def close_pools() -> None:
    """End the ranks of all shared pools."""
    while _pools:
        _pools.popitem()[1].close()
