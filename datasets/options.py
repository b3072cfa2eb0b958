"""Options of data sets and orders, checked by name: an unknown one is refused with the nearest allowed one."""

import difflib
from collections.abc import Iterable, Mapping
from dataclasses import fields
from numbers import Integral, Real
from typing import Any, TypeVar, get_args, get_type_hints

T = TypeVar("T")
_KINDS = {bool: (bool, "true or false"), int: (Integral, "a whole number"), float: (Real, "a number")}


class OptionError(ValueError):
    """A value that an option does not allow: the fault of no file."""


def unknown_name(kind: str, name: object, allowed: Iterable[str]) -> str:
    """Return the message for a name that is not allowed, with the most similar allowed one."""
    names = list(allowed)
    similar = difflib.get_close_matches(str(name), names, n=1)
    hint = f"; did you mean {similar[0]!r}?" if similar else ""
    return f"{kind} {name!r} is unknown: allowed are {', '.join(names) or 'none'}{hint}"


def options_from(kind: type[T], dataset: str, options: Mapping[str, Any]) -> T:
    """Build the dataclass of a data set's options; raises ValueError for a name that it lacks and for a wrong type."""
    check_options(f"option of data set {dataset}", options, [field.name for field in fields(kind)])  # type: ignore[arg-type]
    check_types(options, get_type_hints(kind))
    return kind(**options)


def check_options(kind: str, options: Iterable[str], allowed: Iterable[str]) -> None:
    """Raise ValueError for the first option that is not allowed; ``kind`` says whose option it is."""
    allowed = list(allowed)
    for name in options:
        if name not in allowed:
            raise ValueError(unknown_name(kind, name, allowed))


def check_types(options: Mapping[str, Any], types: Mapping[str, Any]) -> None:
    """Raise OptionError for a value that is not of its option's type, where that is a number or true or false."""
    for name, value in options.items():
        allowed = get_args(types[name]) or (types[name],)
        kind = next((kind for kind in allowed if kind in _KINDS), None)
        if kind is None or (value is None and type(None) in allowed):
            continue
        abstract, words = _KINDS[kind]
        if not isinstance(value, abstract) or (kind is not bool and isinstance(value, bool)):
            raise OptionError(f"dataset.options.{name}={value} is not allowed: give {words}")
