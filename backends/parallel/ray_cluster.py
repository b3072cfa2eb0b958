"""Ray, started here or a running cluster joined for its first user in this process, left after its last."""

import logging
import os
import shutil
import socket
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

LONGEST_FOLDER = 40
LEAST_STORE = 256 << 20
STORE_SHARE = 0.3  # of the memory that is available; what does not fit is written to disk
ANSWER_SECONDS = 10.0
SHARED_MEMORY = Path("/dev/shm")
MEMORY = Path("/proc/meminfo")

_lock = threading.Lock()
_users = 0
_folder: str | None = None
_joined = False


def require(option: str, alternative: str) -> None:
    """Raise ValueError where Ray is not installed; ``option`` needs it, ``alternative`` does not."""
    try:
        version("ray")
    except PackageNotFoundError:
        message = f"{option} needs the package ray: pip install -e '.[ray]', or give {alternative}"
        raise ValueError(message) from None


def acquire(address: str | None = None) -> Any:
    """Count one more user and return the ``ray`` module, connected; each call needs one ``release``.

    ``address`` is that of a running cluster, ``host:port`` or Ray's ``auto``; without one Ray is started here. A
    connection that existed before the first user is used and stays open. Raises ConnectionError where none answers.
    """
    global _users, _folder, _joined
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    import ray

    with _lock:
        if not ray.is_initialized():
            if address is None:
                folder = _short_folder()
                try:
                    _start(ray, folder)
                except BaseException:
                    ray.shutdown()
                    shutil.rmtree(folder, ignore_errors=True)
                    raise
                _folder = folder
            else:
                _join(ray, address)
                _joined = True
        _users += 1
        return ray


def release() -> None:
    """Count one user less; after the last one leave the cluster, or end Ray's processes and remove its folder."""
    global _users, _folder, _joined
    import ray

    with _lock:
        _users -= 1
        if _users == 0 and (_folder is not None or _joined):
            ray.shutdown()
            if _folder is not None:
                shutil.rmtree(_folder, ignore_errors=True)
            _folder, _joined = None, False


def cpus(ray: Any) -> int:
    """Cores of the whole cluster."""
    return max(1, int(ray.cluster_resources().get("CPU", 1)))


def everywhere(ray: Any, function: Any, *arguments: Any) -> list[Any]:
    """Start a function once on every machine of the cluster that is alive; returns the handles of the results."""
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    nodes = [node["NodeID"] for node in ray.nodes() if node["Alive"]]
    task = ray.remote(num_cpus=0, max_retries=3)(function)  # of a worker that dies, for example for want of memory
    return [task.options(scheduling_strategy=NodeAffinitySchedulingStrategy(node, True)).remote(*arguments)
            for node in nodes]  # fmt: skip


def _start(ray: Any, folder: str) -> None:
    ray.init(
        address="local",
        num_cpus=len(os.sched_getaffinity(0)),
        include_dashboard=False,
        _temp_dir=folder,
        object_store_memory=_store_bytes(),
        logging_level=logging.ERROR,
        log_to_driver=False,
    )


def reach(address: str) -> None:
    """Raise ConnectionError for a port that nobody listens on, at once: Ray itself tries for a minute."""
    host, _, port = address.rpartition(":")
    if port.isdigit():
        with _answering(address):
            socket.create_connection((host, int(port)), ANSWER_SECONDS).close()


def _join(ray: Any, address: str) -> None:
    reach(address)
    with _answering(address):
        ray.init(address=address, logging_level=logging.ERROR, log_to_driver=False)


@contextmanager
def _answering(address: str) -> Iterator[None]:
    """Turn what is raised where no cluster answers into a ConnectionError that says what to do."""
    try:
        yield
    except (OSError, RuntimeError, ValueError) as error:
        raise ConnectionError(
            f"no Ray cluster answers at {address} ({error}): start one by ray start --head, and join it from each "
            "machine, this one too, by ray start --address"
        ) from error


def _store_bytes() -> int:
    """Size of Ray's object store: a share of the available memory, as far as shared memory has room for it."""
    available = _available_bytes()
    shared = os.statvfs(SHARED_MEMORY) if SHARED_MEMORY.is_dir() else None
    room = available if shared is None else shared.f_bavail * shared.f_frsize
    return max(LEAST_STORE, int(min(STORE_SHARE * available, 0.9 * room)))


def _available_bytes() -> int:
    """Memory that is free or can be freed: what files are cached in would make the store of an idle machine small."""
    lines = MEMORY.read_text().splitlines() if MEMORY.is_file() else []
    told = (1024 * int(line.split()[1]) for line in lines if line.startswith("MemAvailable:"))
    return next(told, os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"))


def _short_folder() -> str:
    """Make a temporary folder with a path so short that Ray's sockets in it stay below 107 bytes."""
    if len(tempfile.gettempdir()) > LONGEST_FOLDER:
        raise ValueError(f"{tempfile.gettempdir()} is too long a path for Ray's sockets: set TMPDIR to a shorter one")
    return tempfile.mkdtemp(prefix="ray-")
