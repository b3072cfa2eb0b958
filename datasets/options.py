"""Options of data sets and orders, checked by name: an unknown one is refused with the nearest allowed one."""

import difflib
from collections.abc import Iterable, Mapping
from dataclasses import fields
from typing import Any, TypeVar

T = TypeVar("T")


def unknown_name(kind: str, name: object, allowed: Iterable[str]) -> str:
    """Return the message for a name that is not allowed, with the most similar allowed one."""
    names = list(allowed)
    similar = difflib.get_close_matches(str(name), names, n=1)
    hint = f"; did you mean {similar[0]!r}?" if similar else ""
    return f"{kind} {name!r} is unknown: allowed are {', '.join(names) or 'none'}{hint}"


def options_from(kind: type[T], dataset: str, options: Mapping[str, Any]) -> T:
    """Build the dataclass of a data set's options; raises ValueError for a name that it lacks."""
    check_options(f"option of data set {dataset}", options, [field.name for field in fields(kind)])  # type: ignore[arg-type]
    return kind(**options)


def check_options(kind: str, options: Iterable[str], allowed: Iterable[str]) -> None:
    """Raise ValueError for the first option that is not allowed; ``kind`` says whose option it is."""
    allowed = list(allowed)
    for name in options:
        if name not in allowed:
            raise ValueError(unknown_name(kind, name, allowed))
