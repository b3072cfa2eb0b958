"""Settings: the fields of a configuration, each with its default, its limits and its part in a cell's identity."""

from collections.abc import Callable, Iterator
from dataclasses import MISSING, Field, dataclass, field, fields, is_dataclass
from typing import Any

FROM_THE_START = object()


@dataclass(frozen=True)
class Setting:
    """What the harness knows of a field beside its default.

    ``choices`` are the allowed values, ``least`` is the smallest one beside ``None``. Cells that differ in a setting
    that is not ``executed`` have the same hash. The cells of a group are equal in what is ``shared``. Rows of a table
    that have the same name get the values of what ``labels`` them. ``for_engine`` is false for settings of the training
    that the harness carries out itself. ``before`` is for an option that came after records had been written: the value
    at which nothing changed, left out of the hash so that those records keep theirs.
    """

    choices: tuple[str, ...] = ()
    least: float | None = None
    executed: bool = True
    shared: bool = True
    labels: bool = True
    for_engine: bool = True
    before: Any = FROM_THE_START


def setting(
    default: Any = MISSING,
    *,
    factory: Callable[[], Any] | None = None,
    executed: bool = True,
    shared: bool | None = None,
    labels: bool | None = None,
    **others: Any,
) -> Any:
    """Return a dataclass field with its ``Setting``; ``shared`` and ``labels`` are as ``executed`` unless given."""
    shared, labels = (executed if value is None else value for value in (shared, labels))
    metadata = {"setting": Setting(executed=executed, shared=shared, labels=labels, **others)}
    if factory is not None:
        return field(default_factory=factory, metadata=metadata)
    return field(default=default, metadata=metadata)


def setting_of(item: "Field[Any]") -> Setting:
    """Return what the harness knows of a dataclass field; a plain field is executed and has no limits."""
    known: Setting = item.metadata.get("setting", Setting())
    return known


def settings_in(config: Any, prefix: str = "") -> Iterator[tuple[str, Setting, Any]]:
    """Yield the dotted key, the setting and the value of every field of a configuration, its sections included."""
    for item in fields(config):
        key, value = f"{prefix}{item.name}", getattr(config, item.name)
        yield key, setting_of(item), value
        if is_dataclass(value):
            yield from settings_in(value, f"{key}.")


def executed_values(config: Any) -> dict[str, Any]:
    """Return a configuration as nested dictionaries of what is executed: what two equal cells have in common."""
    values = {}
    for item in fields(config):
        known, value = setting_of(item), getattr(config, item.name)
        if known.executed and (known.before is FROM_THE_START or value != known.before):
            values[item.name] = executed_values(value) if is_dataclass(value) else value
    return values
