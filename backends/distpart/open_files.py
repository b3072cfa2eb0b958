"""How many files a process may have open: each mapped chunk of a graph is one, and each file of a bucket."""

import resource
from contextlib import suppress


def allow_most() -> None:
    """Raise the process's limit to what the system allows it."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    with suppress(ValueError, OSError):  # some systems name no limit and allow less
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


def allowed() -> int:
    """Files that may be open now."""
    limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return 1 << 16 if limit == resource.RLIM_INFINITY else limit
