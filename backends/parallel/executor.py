"""Tasks that run at once in this process, or on Ray: the same functions, whose results may be arguments of others."""

from collections.abc import Callable, Sequence
from typing import Any, Protocol

from backends.progress import Progress

Task = Callable[..., list[Any]]


class Executor(Protocol):
    """Runs tasks, here or elsewhere; a handle stands for one result."""

    def put(self, value: Any) -> Any:
        """Return a handle of a value."""
        ...

    def submit(self, results: int, task: Task, *arguments: Any) -> list[Any]:
        """Start a task that returns a list of ``results`` values; arguments may be handles."""
        ...

    def get(self, handles: Sequence[Any]) -> list[Any]:
        """Wait for the values of handles; raises the error of a task."""
        ...

    def wait(self, step: str, handles: Sequence[Any], progress: Progress) -> None:
        """Wait until all results are there, reporting how many are; raises the error of a task."""
        ...


class InlineExecutor:
    """Runs each task at once in this process; handles are the values themselves."""

    def put(self, value: Any) -> Any:
        """Return the value."""
        return value

    def submit(self, results: int, task: Task, *arguments: Any) -> list[Any]:
        """Run the task and return its results."""
        return task(*arguments)

    def get(self, handles: Sequence[Any]) -> list[Any]:
        """Return the values."""
        return list(handles)

    def wait(self, step: str, handles: Sequence[Any], progress: Progress) -> None:
        """Report that all are there."""
        progress(step, len(handles), len(handles))


class RayExecutor:
    """Runs tasks on Ray, which retries them, recomputes lost results and spills large ones to disk."""

    def __init__(self, ray: Any) -> None:
        self.ray = ray
        self.run = ray.remote(max_retries=3)(_unpacked)
        self.finished = ray.remote(max_retries=3, num_cpus=0)(_finished)

    def put(self, value: Any) -> Any:
        """Put a value into Ray's object store."""
        return self.ray.put(value)

    def submit(self, results: int, task: Task, *arguments: Any) -> list[Any]:
        """Start a Ray task with one handle per result."""
        handles = self.run.options(num_returns=results).remote(results, task, *arguments)
        return [handles] if results == 1 else list(handles)

    def get(self, handles: Sequence[Any]) -> list[Any]:
        """Wait for results; re-raises an error of a task, and ChildProcessError where Ray stopped retrying one."""
        given_up = ChildProcessError("Ray gave up on a task: repeat the command, which resumes here")
        return results_of(self.ray, handles, given_up)

    def wait(self, step: str, handles: Sequence[Any], progress: Progress) -> None:
        """Wait for one result after the other, all of which stay where they are; raises the first error at once."""
        remaining = [self.finished.remote(handle) for handle in handles]
        while remaining:
            done, remaining = self.ray.wait(remaining)
            self.get(done)
            progress(step, len(handles) - len(remaining), len(handles))


def results_of(ray: Any, handles: Sequence[Any], given_up: OSError | RuntimeError) -> list[Any]:
    """Wait for results of tasks or actors; re-raises an error of theirs.

    For an error of Ray itself (a process or node that died, no memory, a lost object) raises one of the type of
    ``given_up``, with its message before Ray's.
    """
    failures = ray.exceptions
    try:
        return list(ray.get(list(handles)))
    except failures.RayError as error:
        # what reads results of a task that Ray gave up on has the error of that one as its cause
        cause = (error.cause or error) if isinstance(error, failures.RayTaskError) else error
        if not isinstance(cause, failures.RayError):
            raise cause from error  # which has the trace of the other process
        raise type(given_up)(f"{given_up}: {_reason(cause)}") from error


def _reason(error: Exception) -> str:
    """Ray's message; before the trace of an actor that could not be built, the error at its end."""
    text = str(error).strip()
    return f"{text.splitlines()[-1]}\n{text}" if "ray::" in text.partition("\n")[0] else text


def _finished(result: Any) -> None:
    """Nothing, once a result is there; it runs where that lies."""


def _unpacked(results: int, task: Task, *arguments: Any) -> Any:
    """A task's results as Ray returns them: a value for one result, a tuple for more."""
    values = task(*arguments)
    return values[0] if results == 1 else tuple(values)
