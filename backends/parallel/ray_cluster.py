"""Ray on this machine, started when it is first needed and stopped when nobody needs it any more."""

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


def require(asked: str, instead: str) -> None:
    """Raise ValueError where Ray is not installed: ``asked`` needs it, ``instead`` does without."""
    try:
        version("ray")
    except PackageNotFoundError:
        raise ValueError(f"{asked} needs the package ray: pip install -e '.[ray]', or give {instead}") from None


def acquire() -> Any:
    """Return the ``ray`` module, connected; each call needs one ``release``.

    A connection that the caller's program made before is used as it is, and left open.
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
    """Give back what ``acquire`` gave; the last one ends Ray's processes and removes its folder."""
    global _users, _folder
    import ray

    with _lock:
        _users -= 1
        if _users == 0 and _folder is not None:
            ray.shutdown()
            shutil.rmtree(_folder, ignore_errors=True)
            _folder = None


def _short_folder() -> str:
    """Make a temporary folder whose path leaves room for the names of Ray's sockets (at most 107 bytes)."""
    if len(tempfile.gettempdir()) > LONGEST_FOLDER:
        raise ValueError(f"{tempfile.gettempdir()} is too long a path for Ray's sockets: set TMPDIR to a shorter one")
    return tempfile.mkdtemp(prefix="agl-")
