"""A step of a dispatch: one task for each of many arguments, in threads of this process or as Ray tasks."""

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from typing import Any

from backends.parallel import ray_cluster
from backends.parallel.executor import RayExecutor
from datasets.tables.out_of_core import Progress


@dataclass(frozen=True)
class DispatchStep:
    """``task(*shared, argument)`` for each argument; tasks write files of their own and return nothing."""

    name: str
    task: Callable[..., None]
    shared: tuple[Any, ...]
    arguments: Sequence[Any]


def run_in_threads(step: DispatchStep, threads: int, progress: Progress) -> None:
    """Run all tasks; the first error ends the step."""
    with ThreadPoolExecutor(threads) as pool:
        futures = [pool.submit(step.task, *step.shared, argument) for argument in step.arguments]
        try:
            for done, future in enumerate(as_completed(futures), start=1):
                future.result()
                progress(step.name, done, len(futures))
        except BaseException:
            pool.shutdown(cancel_futures=True)
            raise


def run_on_ray(step: DispatchStep, address: str | None, progress: Progress) -> None:
    """Run each task on a machine of a cluster, all of which reach the folders of the graph and of the parts.

    ``shared`` is sent once. Raises ValueError where Ray is not installed, and the error of the first task that fails.
    """
    ray_cluster.require("run_on=ray", "run_on=local")
    executor = RayExecutor(ray_cluster.acquire(address))
    try:
        shared = executor.put(step.shared)
        running = [executor.submit(1, _run_task, step.task, shared, argument)[0] for argument in step.arguments]
        executor.wait(step.name, running, progress)
    finally:
        ray_cluster.release()


def _run_task(task: Callable[..., None], shared: tuple[Any, ...], argument: Any) -> list[None]:
    task(*shared, argument)
    return [None]
