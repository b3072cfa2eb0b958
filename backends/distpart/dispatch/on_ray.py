"""Steps of a dispatch as Ray tasks; all machines reach the folders of the graph and of the parts."""

from collections.abc import Callable, Sequence
from typing import Any

from backends.parallel import ray_cluster
from datasets.tables.out_of_core import Progress


def run_on_ray(
    address: str | None,
    progress: Progress,
    step: str,
    task: Callable[..., None],
    shared: tuple[Any, ...],
    arguments: Sequence[Any],
) -> None:
    """Call ``task(*shared, argument)`` for each argument in a task of its own; ``shared`` is sent once.

    Raises ValueError where Ray is not installed, and the error of the first task that fails.
    """
    ray_cluster.require("run_on=ray", "run_on=local")
    ray = ray_cluster.acquire(address)
    try:
        stored = ray.put(shared)
        remote = ray.remote(max_retries=3)(lambda values, argument: task(*values, argument))
        running, total = [remote.remote(stored, argument) for argument in arguments], len(arguments)
        while running:
            done, running = ray.wait(running)
            ray.get(done)
            progress(step, total - len(running), total)
    except ray.exceptions.RayTaskError as error:
        raise error.cause or error from None
    finally:
        ray_cluster.release()
