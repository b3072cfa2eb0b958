"""What ``-c`` takes: ``key=value`` pairs, typed and checked."""

from dataclasses import dataclass, fields
from typing import Any

ENGINES = ("local", "ray")


@dataclass(frozen=True)
class Settings:
    """Settings of one inference from the command line; ``fanouts`` has one entry per layer, first layer first."""

    engine: str = "local"
    partitions: int = 0
    threads: int = 2
    seed: int = 0
    fanouts: tuple[int, ...] = ()
    sampler: str = "uniform"
    replace: bool = False
    hub: int = 0
    unmap: bool = False
    slope: float = 0.2


def settings_of(pairs: list[str]) -> Settings:
    """Read ``key=value`` pairs; raises ValueError naming what is allowed."""
    kinds = {item.name: type(item.default) for item in fields(Settings)}
    values: dict[str, Any] = {}
    for pair in pairs:
        key, sign, text = pair.partition("=")
        if key not in kinds or not sign:
            raise ValueError(f"-c {pair} is not understood: give key=value with a key of {', '.join(kinds)}")
        values[key] = _value(key, text, kinds[key])
    settings = Settings(**values)
    if settings.engine not in ENGINES:
        raise ValueError(f"-c engine={settings.engine} is not allowed: one of {', '.join(ENGINES)}")
    if settings.threads < 1:
        raise ValueError(f"-c threads={settings.threads} is not allowed: at least 1")
    return settings


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
