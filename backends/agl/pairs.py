"""What ``-c`` takes on AGL's command lines: ``key=value`` pairs, typed by the fields of a settings class."""

from dataclasses import fields
from typing import Any, TypeVar

T = TypeVar("T")


def read_pairs(pairs: list[str], kind: type[T]) -> T:
    """Read pairs into a dataclass whose fields have defaults; raises ValueError naming what is allowed."""
    kinds = {item.name: type(item.default) for item in fields(kind)}  # type: ignore[arg-type]
    values: dict[str, Any] = {}
    for pair in pairs:
        key, sign, text = pair.partition("=")
        if key not in kinds or not sign:
            raise ValueError(f"-c {pair} is not understood: give key=value with a key of {', '.join(kinds)}")
        values[key] = _value(key, text, kinds[key])
    return kind(**values)


def _value(key: str, text: str, kind: type) -> Any:
    try:
        if kind is tuple:
            return tuple(int(part) for part in text.split(",") if part)
        if kind is bool:
            return {"true": True, "false": False}[text.lower()]
        return kind(text)
    except (ValueError, KeyError) as error:
        known: dict[Any, str] = {tuple: "whole numbers with commas between", bool: "true or false"}
        wanted = known.get(kind, f"one {kind.__name__}")
        raise ValueError(f"-c {key}={text} is not understood: give {wanted}") from error
