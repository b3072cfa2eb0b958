"""Exit codes, and errors of usage, which name the given value, the allowed ones and the nearest of them."""

import difflib
import sys
from collections.abc import Iterable

OK, FAILED, USAGE = 0, 1, 2


class UsageError(ValueError):
    """A command that cannot be carried out as written; the command line ends with exit code 2."""


def complain(error: object, code: int) -> int:
    """Print an error and return the exit code."""
    print(f"error: {error}", file=sys.stderr)
    return code


def nearest(name: str, allowed: Iterable[str]) -> str:
    """Return ``"; did you mean 'x'?"`` for the most similar allowed name, or nothing."""
    matches = difflib.get_close_matches(name, list(allowed), n=1, cutoff=0.6)
    return f"; did you mean {matches[0]!r}?" if matches else ""


def unknown(what: str, name: str, allowed: Iterable[str]) -> UsageError:
    """Build the error for a name that is not in a list."""
    names = sorted(allowed)
    return UsageError(f"{what} {name!r} is unknown: allowed are {', '.join(names) or 'none'}{nearest(name, names)}")


def formatted_bytes(size: float) -> str:
    """Bytes in binary units."""
    for unit in ("B", "KiB", "MiB", "GiB"):
        if size < 1024 or unit == "GiB":
            break
        size /= 1024
    return f"{size:,.0f} {unit}" if unit == "B" else f"{size:,.1f} {unit}"
