"""Ray on this machine: started for its first user in this process, stopped after its last."""

import logging
import os
import shutil
import tempfile
import threading
from importlib.metadata import PackageNotFoundError, version
from typing import Any

LONGEST_FOLDER = 40
STORE_BYTES = 256 << 20

_lock = threading.Lock()
_users = 0
_folder: str | None = None


def require(option: str, alternative: str) -> None:
    """Raise ValueError where Ray is not installed; ``option`` needs it, ``alternative`` does not."""
    try:
        version("ray")
    except PackageNotFoundError:
        message = f"{option} needs the package ray: pip install -e '.[ray]', or give {alternative}"
        raise ValueError(message) from None


def acquire() -> Any:
    """Count one more user and return the ``ray`` module, connected; each call needs one ``release``.

    A connection that existed before the first user is used and stays open.
    """
    global _users, _folder
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    import ray

    with _lock:
        if not ray.is_initialized():
            _folder = _short_folder()
            ray.init(
                address="local",
                num_cpus=os.cpu_count(),
                include_dashboard=False,
                _temp_dir=_folder,
                object_store_memory=STORE_BYTES,
                logging_level=logging.ERROR,
                log_to_driver=False,
            )
        _users += 1
        return ray


def release() -> None:
    """Count one user less; after the last one end Ray's processes and remove its folder."""
    global _users, _folder
    import ray

    with _lock:
        _users -= 1
        if _users == 0 and _folder is not None:
            ray.shutdown()
            shutil.rmtree(_folder, ignore_errors=True)
            _folder = None


def _short_folder() -> str:
    """Make a temporary folder with a path so short that Ray's sockets in it stay below 107 bytes."""
    if len(tempfile.gettempdir()) > LONGEST_FOLDER:
        raise ValueError(f"{tempfile.gettempdir()} is too long a path for Ray's sockets: set TMPDIR to a shorter one")
    return tempfile.mkdtemp(prefix="ray-")
