"""Comparison of JSON values with their types: every place that breaks one, what stands there, what is allowed.

msgspec judges single values. The walk to them names their place, refuses unknown keys where a type is closed, and
in open types numbers that no run measures (NaN, beyond 1e30) and deep nesting.
"""

import re
from collections.abc import Iterable, Iterator
from functools import cache
from math import isfinite
from types import UnionType
from typing import (
    Annotated,
    Any,
    Literal,
    NotRequired,
    Required,
    Union,
    get_args,
    get_origin,
    get_type_hints,
    is_typeddict,
)

import msgspec

DEEPEST = 40
LARGEST = 1e30
WORD = re.compile(r"[\w .<>=/:-]{1,60}", re.ASCII)


def violations(value: Any, kind: Any, where: str = "", closed: frozenset[Any] = frozenset()) -> list[str]:
    """List a sentence for each place in ``value`` that breaks ``kind``; ``closed`` are the types without other keys."""
    return [] if _accepted(value, kind, closed) else list(_mistyped(value, kind, where, closed))


def unsound(value: Any) -> list[str]:
    """List a sentence for each place whose value a record may hold under no key."""
    return [] if _sound((value,), 0) else list(_unsound(value, "", 0))


def _sound(values: Iterable[Any], depth: int) -> bool:
    """Whether there is nothing to list, found without the names of places."""
    for value in values:
        kind = type(value)
        if kind is float or kind is int:
            if not -LARGEST <= value <= LARGEST:
                return False
        elif kind is dict or kind is list:
            if depth > DEEPEST or not _sound(value.values() if kind is dict else value, depth + 1):
                return False
        elif kind is not str and kind is not bool and value is not None:
            return False
    return True


def _unsound(value: Any, where: str, depth: int) -> Iterator[str]:
    if depth > DEEPEST:
        yield f"{where} is nested more than {DEEPEST} deep"
    elif isinstance(value, dict):
        for key, part in value.items():
            yield from _unsound(part, place(where, key), depth + 1)
    elif isinstance(value, list):
        for index, part in enumerate(value):
            yield from _unsound(part, f"{where}[{index}]", depth + 1)
    elif isinstance(value, float) and not isfinite(value):
        yield f"{where} is {value}, not finite: allowed are numbers up to {LARGEST:g}"
    elif isinstance(value, int | float) and abs(value) > LARGEST:
        yield _sentence(where, value, f"a number up to {LARGEST:g}")
    elif not isinstance(value, str | int | float | None):
        yield _sentence(where, value, "a text, number, list, object, true, false or null")


def _mistyped(value: Any, kind: Any, where: str, closed: frozenset[Any]) -> Iterator[str]:
    """Yield the places whose values are of another type than ``kind`` says, or outside its bounds."""
    container = _container(kind, value)
    if kind is Any:
        return
    if container is None:
        if allowed := _refusal(value, kind):
            yield _sentence(where, value, allowed)
    elif get_origin(container) is list:
        if isinstance(value, list):
            yield from _of_list(value, kind, container, where, closed)
        else:
            yield _sentence(where, value, "a list")
    elif not isinstance(value, dict):
        yield _sentence(where, value, "an object")
    elif get_origin(container) is dict:
        for key, part in value.items():
            yield from _mistyped(part, get_args(container)[1], place(where, key), closed)
    else:
        yield from _of_fields(value, container, where, closed)


def place(where: str, key: object) -> str:
    """Dotted path of a key below ``where``; a key of other than plain characters is quoted."""
    text = key if isinstance(key, str) and WORD.fullmatch(key) else abridged(key)
    return f"{where}.{text}" if where else text


def abridged(value: object) -> str:
    """Describe a value in at most about 60 printable ASCII characters."""
    if isinstance(value, list):
        return f"a list of {len(value)}"
    if isinstance(value, dict):
        return f"an object of {len(value)} keys"
    if isinstance(value, int) and abs(value) > LARGEST:
        return f"a number of {value.bit_length()} bits"
    text = ascii(value)
    return text if len(text) <= 60 else f"{text[:57]}..."


def _accepted(value: Any, kind: Any, closed: frozenset[Any]) -> bool:
    """Whether msgspec accepts the whole value; converting it drops the keys that a closed type lacks."""
    try:
        converted = msgspec.convert(value, kind, strict=True)
    except msgspec.ValidationError:
        return False
    return not closed or bool(converted == value)


def _sentence(where: str, value: object, allowed: str) -> str:
    return f"{where or 'the file'} is {abridged(value)}: allowed is {allowed}"


def _of_list(value: list[Any], kind: Any, container: Any, where: str, closed: frozenset[Any]) -> Iterator[str]:
    (element,) = get_args(container)
    marks = getattr(kind, "__metadata__", ())
    if marks and (allowed := _refusal(value, Annotated[(list[Any], *marks)])):
        yield f"{where} holds {len(value)} entries: allowed is {allowed}"
    if _is_single(element) and _refusal(value, container) is None:
        return
    for index, part in enumerate(value):
        yield from _mistyped(part, element, f"{where}[{index}]", closed)


def _of_fields(value: dict[str, Any], kind: Any, where: str, closed: frozenset[Any]) -> Iterator[str]:
    fields = _fields(kind)
    yield from (f"{place(where, key)} is missing" for key in sorted(kind.__required_keys__ - set(value)))
    for key, part in value.items():
        if key in fields:
            yield from _mistyped(part, fields[key], place(where, key), closed)
        elif kind in closed:
            yield f"{place(where, key)} is unknown: allowed are {', '.join(fields)}"


def _refusal(value: Any, kind: Any) -> str | None:
    """What ``kind`` allows, in words, where msgspec refuses the value; None where it accepts it."""
    try:
        msgspec.convert(value, kind, strict=True)
    except msgspec.ValidationError as error:
        if get_origin(kind) is Literal:
            return ", ".join(map(str, get_args(kind)))
        allowed = re.match(r"Expected (.+?)(, got .*)?$", str(error).split(" - at ")[0])
        return allowed[1].replace("`", "") if allowed else f"another value ({error})"
    return None


def _container(kind: Any, value: Any) -> Any:
    """The type of an object or a list that a value should be; None for single values and for open types."""
    bare = _unmarked(kind)
    if get_origin(bare) in (Union, UnionType):
        arms = [arm for arm in map(_unmarked, get_args(bare)) if _container(arm, value) is not None]
        fitting = [arm for arm in arms if isinstance(value, list) == (get_origin(arm) is list)]
        return fitting[0] if fitting and isinstance(value, list | dict) else None
    return bare if get_origin(bare) in (list, dict) or is_typeddict(bare) else None


@cache
def _is_single(kind: Any) -> bool:
    return _container(kind, {}) is None and _container(kind, []) is None


def _unmarked(kind: Any) -> Any:
    return get_args(kind)[0] if get_origin(kind) is Annotated else kind


@cache
def _fields(kind: Any) -> dict[str, Any]:
    """Types of a TypedDict's keys, without the marks for required ones."""
    hints = get_type_hints(kind, include_extras=True).items()
    return {key: get_args(hint)[0] if get_origin(hint) in (Required, NotRequired) else hint for key, hint in hints}
