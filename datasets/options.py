"""Options of data sets and orders, checked by name: an unknown one is refused with the nearest allowed one."""

import difflib
from collections.abc import Iterable, Mapping
from dataclasses import fields
from numbers import Integral, Real
from types import NoneType, UnionType
from typing import Any, TypeVar, Union, get_args, get_origin, get_type_hints

T = TypeVar("T")
_KINDS: dict[Any, tuple[Any, str]] = {
    bool: (bool, "true or false"),
    int: (Integral, "a whole number"),
    float: (Real, "a number"),
    str: ((str, Integral), "text"),
    list[str]: ((list, tuple), "a list of texts"),
    Mapping[str, Any]: (Mapping, "keys with values"),
}


class OptionError(ValueError):
    """An option that there is not, or a value that it does not allow: the fault of no file."""


def unknown_name(kind: str, name: object, allowed: Iterable[str]) -> str:
    """Return the message for a name that is not allowed, with the most similar allowed one."""
    names = list(allowed)
    similar = difflib.get_close_matches(str(name), names, n=1)
    hint = f"; did you mean {similar[0]!r}?" if similar else ""
    return f"{kind} {name!r} is unknown: allowed are {', '.join(names) or 'none'}{hint}"


def options_from(kind: type[T], dataset: str, options: Mapping[str, Any]) -> T:
    """Build the dataclass of a data set's options; raises OptionError for a name or a value that it does not allow."""
    check_options(f"option of data set {dataset}", options, [field.name for field in fields(kind)])  # type: ignore[arg-type]
    types = get_type_hints(kind)
    check_types(options, types)
    try:
        return kind(**{name: _as_text(value, _kinds_of(types[name])) for name, value in options.items()})
    except ValueError as error:
        raise OptionError(str(error)) from error


def check_options(kind: str, options: Iterable[str], allowed: Iterable[str]) -> None:
    """Raise OptionError for the first option that is not allowed; ``kind`` says whose option it is."""
    allowed = list(allowed)
    for name in options:
        if name not in allowed:
            raise OptionError(unknown_name(kind, name, allowed))


def check_types(options: Mapping[str, Any], types: Mapping[str, Any], section: str = "dataset.options") -> None:
    """Raise OptionError for a value that is of none of its option's types, where all of these are in ``_KINDS``."""
    for name, value in options.items():
        kinds = _kinds_of(types[name])
        known = [kind for kind in kinds if kind in _KINDS]
        if len(known) + (NoneType in kinds) < len(kinds) or not known or (value is None and NoneType in kinds):
            continue
        if not any(_fits(value, kind) for kind in known):
            words = " or ".join(_KINDS[kind][1] for kind in known)
            raise OptionError(f"{section}.{name}={value} is not allowed: give {words}")


def _kinds_of(hint: Any) -> tuple[Any, ...]:
    """The types that a hint allows, one or the members of a union."""
    return get_args(hint) if get_origin(hint) in (Union, UnionType) else (hint,)


def _fits(value: Any, kind: Any) -> bool:
    if isinstance(value, bool) and kind is not bool:
        return False
    return isinstance(value, _KINDS[kind][0]) and (kind != list[str] or all(_fits(part, str) for part in value))


def _as_text(value: Any, kinds: tuple[Any, ...]) -> Any:
    """A whole number as text where text is meant: Hydra reads the name ``3`` of a column as a number."""
    if list[str] in kinds and isinstance(value, list | tuple):
        return [str(part) for part in value]
    return str(value) if str in kinds and isinstance(value, Integral) else value
