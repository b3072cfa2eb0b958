"""Child processes, the messages to and from them, and their process trees, which are ended whole.

A child leads a POSIX session of its own; the processes of that session are its *process tree* and bear its process id,
whatever process groups they form. Run as a program this file is the guard: it waits until its parent is gone, then ends
the process trees that were left and removes their temporary folders.
"""

import json
import os
import secrets
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Collection, Iterator
from contextlib import suppress
from pathlib import Path
from typing import IO, Any

ROOT = Path(__file__).resolve().parents[2]
MOST_MILLISECONDS = (1 << 31) - 1  # that poll takes; who waits longer asks again
Message = dict[str, Any]


def without_folders(text: str) -> str:
    """Paths below the repository relative to it, others below the home folder from ``~``: records are published."""
    text, home = text.replace(f"{ROOT}/", ""), os.environ.get("HOME", "").rstrip("/")
    return text.replace(f"{home}/", "~/") if home else text


def _readable(descriptors: Collection[int], timeout: float) -> list[int]:
    """Those that can be read within ``timeout`` seconds; ``select`` takes none from 1,024 on: every graph holds one."""
    poll = select.poll()
    for descriptor in descriptors:
        poll.register(descriptor, select.POLLIN)
    return [descriptor for descriptor, _ in poll.poll(min(1000 * timeout, MOST_MILLISECONDS))]


class LauncherError(RuntimeError):
    """A run cannot go on: a process survives its end, or the guard is gone; the message says what to do."""


class ChildEnded(Exception):
    """The child is gone; ``returncode`` is that of ``subprocess``: negative for a signal."""

    def __init__(self, returncode: int) -> None:
        super().__init__(f"the process ended with {returncode}")
        self.returncode = returncode


def members(tree: int) -> list[int]:
    """Process ids of a tree that still run, zombies left out."""
    return [pid for pid, _ in _running({tree})]


def cpu_ticks(trees: Collection[int]) -> int:
    """Clock ticks that process trees have used so far, ended and awaited children included."""
    return sum(sum(map(int, fields[11:15])) for _, fields in _running(trees)) if trees else 0


def cpu_ticks_of_helpers(tree: int) -> int:
    """Clock ticks that a tree's processes have used so far, but its first, which counts its own."""
    return sum(sum(map(int, fields[11:15])) for pid, fields in _running({tree}) if pid != tree)


def page_faults_of_helpers(tree: int) -> tuple[int, int]:
    """Minor and major page faults so far of a tree's processes but its first, which counts its own."""
    fields = [fields for pid, fields in _running({tree}) if pid != tree]
    return sum(sum(map(int, one[7:9])) for one in fields), sum(sum(map(int, one[9:11])) for one in fields)


def _running(trees: Collection[int]) -> Iterator[tuple[int, list[str]]]:
    for entry in os.listdir("/proc"):  # noqa: PTH208 - one of the few lines that run between samples
        if entry.isdigit():
            fields = stat_fields(int(entry))
            # The first thread of a killed process may be a zombie while others still write a file.
            ended = fields[:1] == ["X"] or (fields[:1] == ["Z"] and int(fields[17]) <= 1)
            if fields and int(fields[3]) in trees and not ended:
                yield int(entry), fields


def stat_fields(pid: int) -> list[str]:
    """Fields of ``/proc/<pid>/stat`` from the state on (proc(5), field 3), or nothing when the process is gone."""
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as file:  # noqa: PTH123 - as above
            return file.read().rpartition(")")[2].split()
    except OSError:
        return []


def end_tree(tree: int, patience: float = 20.0) -> list[int]:
    """Kill every process of a tree; return those that are left after ``patience`` seconds."""
    until = time.monotonic() + patience
    while left := members(tree):
        for pid in left:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                continue
        if time.monotonic() > until:
            return left
        time.sleep(0.005)
    return []


class Guard:
    """A small process that ends process trees and removes folders should this one die without warning."""

    def __init__(self) -> None:
        command = [sys.executable, "-I", "-S", str(Path(__file__).resolve())]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, start_new_session=True)

    def tell(self, word: str, subject: int | str) -> None:
        """``watch`` or ``forget`` a process tree or the absolute path of a folder."""
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(f"{word} {subject}\n".encode())
            self._process.stdin.flush()
        except BrokenPipeError:
            raise LauncherError("the guard process was killed: start the run again") from None

    def close(self) -> None:
        """Let the guard end."""
        assert self._process.stdin is not None
        with suppress(BrokenPipeError):  # of a guard that was killed
            self._process.stdin.close()
        self._process.wait()


class Child:
    """A started process, JSON lines to and from it, and its output."""

    def __init__(self, command: list[str], environment: dict[str, str], guard: Guard) -> None:
        """Start ``command`` followed by the two inherited file descriptors and this process's id."""
        # A process that is killed removes nothing: what it and its helpers write to the temporary folder goes with it.
        self._guard = guard
        self._folder = os.path.join(tempfile.gettempdir(), f"gnn-{secrets.token_hex(8)}")  # noqa: PTH118 - a line's text
        # The guard hears of the folder before there is one: this process may be killed at any line.
        guard.tell("watch", self._folder)
        try:
            os.mkdir(self._folder, 0o700)  # noqa: PTH102
            self._start(command, environment, guard)
        except BaseException:  # a Ctrl-C too: nobody else gets this child to end it
            self._abandon()
            raise

    def _abandon(self) -> None:
        """End the process if it was started, and remove its folder."""
        process = getattr(self, "_process", None)
        if process is not None and process.pid not in end_tree(process.pid):
            process.wait()
        self._remove_folder()

    def _remove_folder(self) -> None:
        shutil.rmtree(self._folder, ignore_errors=True)
        self._guard.tell("forget", self._folder)

    def _start(self, command: list[str], environment: dict[str, str], guard: Guard) -> None:
        to_child, from_child = os.pipe(), os.pipe()
        inherited = (to_child[0], from_child[1])
        self.output: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115 - closed in end()
        self._write, self._read, self._buffer = to_child[1], from_child[0], b""
        shared = {"TORCHINDUCTOR_CACHE_DIR": f"{tempfile.gettempdir()}/torchinductor_{os.getuid()}"}
        environment = shared | environment | {"TMPDIR": self._folder}
        self._process = subprocess.Popen(
            [*command, *map(str, inherited), str(os.getpid())],
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=self.output,
            stderr=self.output,
            pass_fds=inherited,
            start_new_session=True,
        )
        self.tree = self._process.pid
        guard.tell("watch", self.tree)
        for end in inherited:
            os.close(end)
        # Not imported above: as the guard, this file runs without our packages on its path.
        from backends.process_end import end_of

        self._exit = end_of(self.tree)

    def send(self, message: Message) -> None:
        """Send one message; raises ChildEnded."""
        try:
            os.write(self._write, (json.dumps(message) + "\n").encode())
        except BrokenPipeError:
            raise ChildEnded(self._process.wait()) from None

    def receive(self, timeout: float) -> Message | None:
        """Wait for a message, ``None`` after ``timeout`` seconds; raises ChildEnded, also while grandchildren live."""
        until = time.monotonic() + timeout
        while b"\n" not in self._buffer:
            ready = _readable((self._read, self._exit), max(0.0, until - time.monotonic()))
            if self._read in ready:
                data = os.read(self._read, 1 << 16)
                self._buffer += data
                if data:
                    continue
            if ready:
                raise ChildEnded(self._process.wait())
            if time.monotonic() >= until:
                return None
        line, _, self._buffer = self._buffer.partition(b"\n")
        message: Message = json.loads(line)
        return message

    def tail(self, limit: int = 4096) -> str:
        """Return the last whole lines of the process tree's output, without the names of this machine's folders."""
        size = self.output.seek(0, os.SEEK_END)
        self.output.seek(max(0, size - limit))
        text = self.output.read().decode(errors="replace")
        return without_folders(text[text.find("\n") + 1 :] if size > limit else text)

    def end(self) -> None:
        """End the process tree; raises LauncherError when a process survives even that."""
        left = end_tree(self.tree)
        if self.tree not in left:  # it may never end
            self._process.wait()
        self._remove_folder()
        for descriptor in (self._write, self._read, self._exit):
            os.close(descriptor)
        self.output.close()
        if left:
            raise LauncherError(f"processes {left} of process tree {self.tree} cannot be killed: end them by hand")
        self._guard.tell("forget", self.tree)


def guard_trees(lines: IO[bytes]) -> None:
    """Follow a parent's messages to their end, then end the trees and remove the folders that it did not forget."""
    watched: set[str] = set()
    for line in lines:
        word, subject = line.decode().rstrip("\n").split(" ", 1)
        (watched.add if word == "watch" else watched.discard)(subject)
    folders = {subject for subject in watched if subject.startswith("/")}
    for tree in watched - folders:
        end_tree(int(tree))
    for folder in folders:
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    guard_trees(sys.stdin.buffer)
