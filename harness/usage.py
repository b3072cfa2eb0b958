"""Errors of the person at the keyboard: what was given, what is allowed, what was probably meant."""

import difflib
from collections.abc import Iterable


class UsageError(ValueError):
    """A command that cannot be carried out as written; the command line ends with exit code 2."""


def nearest(given: str, allowed: Iterable[str]) -> str:
    """Return ``"; did you mean 'x'?"`` for the most similar allowed name, or nothing."""
    found = difflib.get_close_matches(given, list(allowed), n=1, cutoff=0.6)
    return f"; did you mean {found[0]!r}?" if found else ""


def unknown(what: str, given: str, allowed: Iterable[str]) -> UsageError:
    """Build the error for a name that is not in a list."""
    names = sorted(allowed)
    return UsageError(f"{what} {given!r} is unknown: allowed are {', '.join(names) or 'none'}{nearest(given, names)}")
