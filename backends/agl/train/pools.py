"""Pools of workers: threads or Ray actors at parameter servers, or ranks that average by all-reduce."""

import shutil
import tempfile
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any, Protocol

import torch

from backends.agl.train.worker import TrainingJob, TrainingWorker, WorkerProcess, save_work
from backends.base.gradient_exchange import Call, Servers
from backends.base.parameter_server import ParameterLayout, ParameterServer, UpdateRules
from backends.parallel import ray_cluster as cluster
from backends.parallel.executor import results_of
from backends.parallel.ranks import RankEnded, shared_pool
from datasets.graph import Graph

RESTARTS = 3
ADVICE = "all-reduce cannot go on without it: train again, or choose strategy=sync, whose workers are restarted"
GONE = f"Ray gave up on a parameter server or a worker, after at most {RESTARTS} restarts of each: train again"


class Pool(Protocol):
    """All workers of a training, and its parameter servers where it has some."""

    servers: Servers | None

    def each(self, method: str, arguments: Sequence[tuple[Any, ...]]) -> list[Any]:
        """Call a method of all workers at once, each with its own arguments; re-raises the error of a worker."""
        ...

    def close(self) -> None:
        """End workers and servers, remove their files."""
        ...


class ThreadPool:
    """One server as an object and workers as threads of this process; nothing is restarted."""

    def __init__(self, job: TrainingJob, graph: Graph, rules: UpdateRules) -> None:
        layout = ParameterLayout(job.spec)
        self.server = ParameterServer(*server_arguments(job, rules, 1)[0])
        self.servers: Servers | None = Servers(self._ask, layout.bounds(1))
        self.servers.load(layout.join(job.state))
        self.workers = [TrainingWorker(rank, job, graph, self.servers) for rank in range(rules.workers)]
        self.threads = ThreadPoolExecutor(rules.workers, thread_name_prefix="worker")

    def _ask(self, calls: Sequence[Call]) -> list[Any]:
        return [getattr(self.server, method)(*arguments) for _, method, arguments in calls]

    def each(self, method: str, arguments: Sequence[tuple[Any, ...]]) -> list[Any]:
        """Call a method of every worker in its thread; the first error aborts the waits of the others."""
        pairs = zip(self.workers, arguments, strict=True)
        running = [self.threads.submit(getattr(worker, method), *of_worker) for worker, of_worker in pairs]
        try:
            for ended in as_completed(running):
                ended.result()
        except BaseException:  # also a Ctrl-C, after which nobody waits for them
            self.server.abort()  # others may be waiting for the failed one
            raise
        return [future.result() for future in running]

    def close(self) -> None:
        """End the threads."""
        self.threads.shutdown()


class AllReducePool:
    """Workers on the ranks of this process's pool; all hold the same parameters, so there are no servers."""

    servers: Servers | None = None

    def __init__(self, job: TrainingJob, graph: Graph) -> None:
        workers = len(job.plans)
        self.ranks = shared_pool(workers)
        try:
            arguments = [(rank, job, graph, None) for rank in range(workers)]
            self.workers = self.ranks.build(f"{TrainingWorker.__module__}:TrainingWorker", arguments)
        except RankEnded as ended:
            raise RankEnded(ended.rank, ended.status, f"{ended}; {ADVICE}") from ended

    def each(self, method: str, arguments: Sequence[tuple[Any, ...]]) -> list[Any]:
        """Call a method of every worker at once; raises RankFailed, also for an exception of a worker."""
        try:
            return self.workers.each(method, arguments)
        except RankEnded as ended:
            raise RankEnded(ended.rank, ended.status, f"{ended}; {ADVICE}") from ended

    def close(self) -> None:
        """Let the ranks forget the workers."""
        self.workers.close()


class ServerActor(ParameterServer):
    """A parameter server in a process of its own, on one thread of torch."""

    def __init__(self, *arguments: Any) -> None:
        torch.set_num_threads(1)
        super().__init__(*arguments)


def ask_actors(names: Sequence[str], calls: Sequence[Call]) -> list[Any]:
    """Call server actors, return the answers in order; raises RuntimeError for a server that cannot be restarted.

    Ray repeats calls that a restart interrupted. Actors are looked up by name at each call, as Ray cannot restart a
    worker whose arguments hold actor handles.
    """
    import ray

    actors = {}
    for at in sorted({at for at, _, _ in calls}):
        try:
            actors[at] = ray.get_actor(names[at])
        except ValueError as error:  # a name that Ray has forgotten
            raise RuntimeError(GONE) from error
    running = [getattr(actors[at], method).remote(*arguments) for at, method, arguments in calls]
    return results_of(ray, running, RuntimeError(GONE))


class RayPool:
    """Servers and workers as Ray actors, which Ray restarts; a server starts from its checkpoint."""

    def __init__(self, job: TrainingJob, graph: Graph, rules: UpdateRules, servers: int) -> None:
        self.ray = cluster.acquire()
        self.folder = Path(tempfile.mkdtemp(prefix="agl-"))
        self.actors: list[Any] = []
        self.workers: list[Any] = []
        try:
            self._launch(job, graph, rules, servers)
        except BaseException:
            self.close()
            raise

    def _launch(self, job: TrainingJob, graph: Graph, rules: UpdateRules, servers: int) -> None:
        save_work(job, graph, self.folder)
        lasting = {"num_cpus": 0, "max_restarts": RESTARTS, "max_task_retries": -1}
        # a waiting pull occupies a thread of the server: one per worker, and another for a restarted worker
        server = self.ray.remote(**lasting, max_concurrency=2 * rules.workers + 2)(ServerActor)
        worker = self.ray.remote(**lasting)(WorkerProcess)
        names = [f"{self.folder.name}-server-{at}" for at in range(servers)]
        arguments = server_arguments(job, rules, servers, self.folder)
        of_servers = zip(names, arguments, strict=True)
        self.actors += [server.options(name=name).remote(*of_server) for name, of_server in of_servers]
        layout = ParameterLayout(job.spec)
        self.servers: Servers | None = Servers(partial(ask_actors, names), layout.bounds(servers))
        self.servers.load(layout.join(job.state))
        self.workers += [worker.remote(rank, str(self.folder), self.servers) for rank in range(rules.workers)]
        self.each("traffic", [()] * rules.workers)

    def each(self, method: str, arguments: Sequence[tuple[Any, ...]]) -> list[Any]:
        """Call a method of every worker and wait for all answers; raises RuntimeError where Ray gave up on one."""
        pairs = zip(self.workers, arguments, strict=True)
        running = [getattr(worker, method).remote(*of_worker) for worker, of_worker in pairs]
        return results_of(self.ray, running, RuntimeError(GONE))

    def close(self) -> None:
        """Kill the actors, release Ray, remove the folder."""
        for actor in [*self.workers, *self.actors]:
            self.ray.kill(actor)
        cluster.release()
        shutil.rmtree(self.folder, ignore_errors=True)


def server_arguments(
    job: TrainingJob, rules: UpdateRules, servers: int, folder: Path | None = None
) -> list[tuple[Any, ...]]:
    """Constructor arguments of each server: rules, training, its number of decayed elements, its checkpoint file."""
    layout = ParameterLayout(job.spec)
    decayed, bounds = layout.decayed(job.training), layout.bounds(servers)
    return [
        (
            rules,
            job.training,
            min(max(decayed - start, 0), end - start),
            None if folder is None else str(folder / f"server-{at}.checkpoint"),
        )
        for at, (start, end) in enumerate(pairwise(bounds))
    ]
