"""Settings: the fields of a configuration, each with its default, its limits and its part in a cell's identity."""

from collections.abc import Callable, Iterator
from dataclasses import MISSING, Field, dataclass, field, fields, is_dataclass
from itertools import repeat
from typing import Any, TypeVar, get_args, get_origin

FROM_THE_START = object()
Kind = TypeVar("Kind")


@dataclass(frozen=True)
class Setting:
    """Limits of a configuration field, and its part in the identity of a cell.

    ``choices`` are the allowed values, ``least`` is the smallest allowed number. Cells that differ only in settings
    that are not ``executed`` have the same hash. The cells of a group are equal in every ``shared`` setting. Rows of a
    table that would have the same name are told apart by the values of settings with ``labels``. ``for_engine`` is
    false for settings of the training that the harness carries out itself. ``before`` is for an option that was added
    when records already existed: the value that means the earlier behaviour, left out of the hash so that those
    records keep theirs.
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


def setting_of(option: "Field[Any]") -> Setting:
    """Return the setting of a dataclass field; a plain field is executed and has no limits."""
    declared: Setting = option.metadata.get("setting", Setting())
    return declared


def settings_in(config: Any, prefix: str = "") -> Iterator[tuple[str, Setting, Any]]:
    """Yield the dotted key, the setting and the value of every field of a configuration, its sections included."""
    for option in fields(config):
        key, value = f"{prefix}{option.name}", getattr(config, option.name)
        yield key, setting_of(option), value
        if is_dataclass(value):
            yield from settings_in(value, f"{key}.")


def executed_values(config: Any) -> dict[str, Any]:
    """Return the executed settings of a configuration as nested dictionaries; cells with equal ones are equal."""
    values = {}
    for option in fields(config):
        declared, value = setting_of(option), getattr(config, option.name)
        if declared.executed and (declared.before is FROM_THE_START or value != declared.before):
            values[option.name] = executed_values(value) if is_dataclass(value) else value
    return values


LOSSES = ("torch", "fused")


def input_setting(*others: str) -> Any:
    """Return a peer's option ``input``, the form of sparse features: ``dense``, as in its examples, or others."""
    return setting("dense", choices=("dense", *others), before="dense")


def loss_setting(own: str) -> Any:
    """Return an engine's option ``loss``, the form of its training loss: ``torch`` or ``fused``, ``own`` by default."""
    return setting(own, choices=LOSSES, before=own)


def typed(kind: type[Kind], facts: dict[str, Any]) -> Kind:
    """A dataclass of what JSON read, its lists as the tuples that they were.

    Raises TypeError for names that are none of its fields, or values of other kinds, as an edited file has.
    """
    one = kind(**{name: _with_tuples(value) for name, value in facts.items()})
    for option in fields(one):  # type: ignore[arg-type]
        value = getattr(one, option.name)
        if not _is_of(value, option.type):
            raise TypeError(f"{option.name} is {value!r}")
    return one


def _with_tuples(value: Any) -> Any:
    return tuple(map(_with_tuples, value)) if isinstance(value, list) else value


def _is_of(value: Any, kind: Any) -> bool:
    """Whether a value is of a kind as annotated; a number without a fraction is a float too."""
    origin, items = get_origin(kind), get_args(kind)
    if origin is tuple:
        kinds = repeat(items[0]) if items[-1] is ... else items
        return isinstance(value, tuple) and all(map(_is_of, value, kinds))
    return isinstance(value, int | float if kind is float else dict if origin is dict else kind)
