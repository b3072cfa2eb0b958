"""Workers as processes of torch.distributed that average their gradients by all-reduce, over gloo."""

import multiprocessing
import os
import shutil
import subprocess
import sys
import tempfile
import traceback
from collections.abc import Sequence
from contextlib import suppress
from datetime import timedelta
from multiprocessing import connection
from pathlib import Path
from typing import Any

from torch import distributed

from backends.agl.train.gradient_exchange import Servers
from backends.agl.train.worker import TrainingJob, WorkerProcess, save_work
from datasets.graph import Graph

PATIENCE = timedelta(minutes=30)


class ProcessPool:
    """See ``backends.agl.train.pools.Pool``; all processes hold the same parameters, so there are no servers."""

    servers: Servers | None = None

    def __init__(self, job: TrainingJob, graph: Graph) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="agl-"))
        self.pipes: list[connection.Connection] = []
        self.processes: list[subprocess.Popen[bytes]] = []
        try:
            self._launch(job, graph)
        except BaseException:
            self.close()
            raise

    def _launch(self, job: TrainingJob, graph: Graph) -> None:
        save_work(job, graph, self.folder)
        for rank in range(len(job.plans)):
            ours, theirs = multiprocessing.Pipe()
            # A program of its own: multiprocessing would run the caller's again.
            command = [sys.executable, "-m", __name__, str(theirs.fileno()), str(rank), str(len(job.plans))]
            variables = dict(os.environ) | {"PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
            process = subprocess.Popen([*command, str(self.folder)], env=variables, pass_fds=[theirs.fileno()])
            theirs.close()
            self.pipes.append(ours)
            self.processes.append(process)
        self._answers()

    def each(self, method: str, arguments: Sequence[tuple[Any, ...]]) -> list[Any]:
        """See ``Pool``."""
        for rank, given in enumerate(arguments):
            try:
                self.pipes[rank].send((method, given))
            except BrokenPipeError:
                raise self._gone(rank) from None
        return self._answers()

    def _answers(self) -> list[Any]:
        """One answer of each process; raises RuntimeError for the first that failed or ended."""
        answers: dict[int, Any] = {}
        while len(answers) < len(self.pipes):
            waiting = [pipe for rank, pipe in enumerate(self.pipes) if rank not in answers]
            for ready in connection.wait(waiting):
                rank = next(rank for rank, pipe in enumerate(self.pipes) if pipe is ready)
                try:
                    answers[rank], error = self.pipes[rank].recv()
                except (EOFError, ConnectionResetError):
                    raise self._gone(rank) from None
                if error is not None:
                    raise RuntimeError(f"worker {rank} of {len(self.pipes)} failed:\n{error}")
        return [answers[rank] for rank in range(len(self.pipes))]

    def _gone(self, rank: int) -> RuntimeError:
        return RuntimeError(
            f"worker {rank} of {len(self.pipes)} ended, and all-reduce cannot go on without it: train again, "
            "or choose backend.strategy=sync, whose workers are restarted"
        )

    def close(self) -> None:
        """See ``Pool``."""
        for process in self.processes:
            process.kill()
            process.wait()
        for pipe in self.pipes:
            pipe.close()
        shutil.rmtree(self.folder, ignore_errors=True)


def serve(pipe: connection.Connection, rank: int, workers: int, folder: str) -> None:
    """Answer the calls of one worker until the pipe is closed."""
    os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
    answer, error = None, None
    try:
        distributed.init_process_group(
            "gloo", f"file://{folder}/rendezvous", timeout=PATIENCE, world_size=workers, rank=rank
        )
        worker = WorkerProcess(rank, folder, None)
    except Exception:
        error = traceback.format_exc()
    with suppress(EOFError, BrokenPipeError):
        while True:
            pipe.send((answer, error))
            method, arguments = pipe.recv()
            try:
                answer, error = getattr(worker, method)(*arguments), None
            except Exception:
                answer, error = None, traceback.format_exc()


if __name__ == "__main__":
    descriptor, rank, workers = map(int, sys.argv[1:4])
    serve(connection.Connection(descriptor), rank, workers, sys.argv[4])
