"""What ``-c`` takes: ``key=value`` pairs, typed and checked."""

from dataclasses import dataclass

from backends.agl.pairs import read_pairs

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
    hub: int = 10_000
    unmap: bool = False
    slope: float = 0.2


def settings_of(pairs: list[str]) -> Settings:
    """Read ``key=value`` pairs; raises ValueError naming what is allowed."""
    settings = read_pairs(pairs, Settings)
    if settings.engine not in ENGINES:
        raise ValueError(f"-c engine={settings.engine} is not allowed: one of {', '.join(ENGINES)}")
    if settings.threads < 1:
        raise ValueError(f"-c threads={settings.threads} is not allowed: at least 1")
    if settings.hub < 0:
        raise ValueError(f"-c hub={settings.hub} is not allowed: at least 1, or 0 to cut no node into pieces")
    return settings
